"""Builds what keeps the limits of keys and tenants."""

from __future__ import annotations

from functools import partial

from gateway.limits.expected import Expectations
from gateway.limits.ledger import Ledger
from gateway.limits.limiter import Limiter
from store import Store
from store.people.keys import NoSuchKey
from store.records import Key, Tenant
from understudy.built import Built

_FOLDER = "limits"


def add_to(built: Built) -> None:
    """Keep a ledger of what keys and tenants may still use, and a limiter before it."""
    config, store = built.config, built.remembered.store
    ledger = Ledger(store.allowances, store.folder / _FOLDER, workers=config.listen.workers)
    built.parts.add(ledger, start=ledger.start, aclose=ledger.aclose)
    when_blind = config.limits.when_blind
    built.limiter = Limiter(ledger, Expectations(), partial(_key_of, store), when_blind=when_blind)


def _key_of(store: Store, key_id: str) -> tuple[Key, Tenant | None] | None:
    # Nearly always it is: what a request asks, and most of what is carried out later.
    if (found := store.keys.in_force(key_id)) is not None:
        return found
    try:
        key = store.keys.get(key_id)
    except NoSuchKey:
        return None
    return key, store.keys.tenant_record(key.tenant)
