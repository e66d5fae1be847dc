"""Keys and tenants of the configuration: brought into the store when a gateway starts, and when it reads its file again."""

from __future__ import annotations

import time
from contextlib import suppress

import structlog

from store import Store
from store.errors import StoreError
from store.people.audit import AuditRecord
from store.people.configured import Changed, Clash, ConfiguredKey, ConfiguredTenant
from store.people.described import changes
from store.records import Key
from understudy.built import Built
from understudy.cannot_start import CannotStart
from understudy.settings.config import Config
from understudy.settings.key_names import with_key_ids
from understudy.setup.unknown_tenants import tell_unknown_tenants

log = structlog.get_logger(__name__)

__all__ = ["Clash", "clashes", "reconcile"]


def add_to(built: Built) -> None:
    """Have the store take the configuration's keys and private tenants. Blocks. Raises CannotStart."""
    config, store = built.config, built.remembered.store
    tell_unknown_tenants(config, store.keys)
    if told := clashes(config, store):
        raise CannotStart("\n".join(told))
    try:
        reconcile(config, store)
    except (Clash, ValueError, StoreError, TimeoutError) as error:
        raise CannotStart(f"the configured keys and tenants cannot be taken: {error}") from error
    built.config = with_key_ids(config, store.keys.configured_id)


def clashes(config: Config, store: Store) -> list[str]:
    """Why the configured keys and tenants cannot be taken, as sentences; empty where they can. Changes nothing."""
    return store.configured.clashes(*_listed(config))


def reconcile(config: Config, store: Store) -> int:
    """Make, change and revoke until the store has the configuration's keys and tenants; gives how many changed.

    Each change is in the audit log. Waits for the commit; not for the event loop. Raises Clash, ValueError and StoreError.
    """
    changed = store.configured.reconcile(*_listed(config))
    for each in changed:
        _note(store, each)
    return len(changed)


def _listed(config: Config) -> tuple[list[ConfiguredKey], list[ConfiguredTenant]]:
    keys = [
        ConfiguredKey(name, key.tenant, key.secret.get_secret_value(), key.terms())
        for name, key in config.keys.items()
    ]
    tenants = [
        ConfiguredTenant(name, tenant.terms(), tenant.region, tenant.retention)
        for name, tenant in config.tenants.items()
    ]
    return keys, tenants


def _note(store: Store, changed: Changed) -> None:
    after = changed.after
    detail = changes(changed.before, after)
    if changed.before is not None and changed.digest is not None and "revoked_at" not in detail:
        detail["secret"] = "changed"
    if isinstance(after, Key):
        action = "keys/configure"
        log.info("key_configured", name=after.name, id=after.id, changed=sorted(detail))
    else:
        action = "tenants/configure"
        log.info("tenant_configured", name=after.name, id=after.id, changed=sorted(detail))
    with suppress(StoreError):
        record = AuditRecord(time.time(), "configuration", action, after.id, "done", "", detail)
        store.audit.note(record)
