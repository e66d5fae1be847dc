"""Builds what keeps the limits of keys and tenants."""

from __future__ import annotations

from functools import partial

from gateway.limits.expected import Expectations
from gateway.limits.ledger import Ledger
from gateway.limits.limiter import Limiter
from store import Store
from store.people.keys import NoSuchKey
from store.records import Key, Tenant
from understudy.settings.limits import LimitsSettings

_FOLDER = "limits"


def limiter(settings: LimitsSettings, store: Store, workers: int) -> tuple[Ledger, Limiter]:
    """The ledger, which is to be started and closed, and what stands before it."""
    ledger = Ledger(store.allowances, store.folder / _FOLDER, workers=workers)
    made = Limiter(
        ledger,
        Expectations(settings.advanced.unknown_output_tokens),
        partial(_key_of, store),
        when_blind=settings.when_blind,
    )
    return ledger, made


def _key_of(store: Store, key_id: str) -> tuple[Key, Tenant | None] | None:
    try:
        key = store.keys.get(key_id)
    except NoSuchKey:
        return None
    return key, store.keys.tenant_record(key.tenant)
