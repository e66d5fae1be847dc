"""From the settings to what tells operators."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import get_args

from learning.guarantee.quality_alarm import quality_of_tenants, quality_standings
from store import Store
from store.jobs.webhooks import Crossing
from understudy.built import Built
from understudy.settings.config import Config
from understudy.settings.webhooks import Event
from understudy.webhooks import events
from understudy.webhooks.events import Budgeted
from understudy.webhooks.webhooks import Endpoint, WebhookMetrics, Webhooks

_QUALITY_EVERY_S = 5.0
_TENANTS_EVERY_S = 60.0
"""The read of all tenants takes up to a second."""


def add_to(built: Built) -> None:
    """Watch, and tell operators."""
    config, store = built.config, built.remembered.store
    endpoints = [
        Endpoint(
            one.url.get_secret_value(),
            "" if one.secret is None else one.secret.get_secret_value(),
            frozenset(get_args(Event) if one.events is None else one.events),
            one.shape,
        )
        for one in config.webhooks
    ]
    made = Webhooks(
        store.jobs.webhooks,
        store.jobs.leases.lease("webhooks"),
        endpoints,
        _look(config, store),
        WebhookMetrics(built.metrics.registry),
    )
    built.parts.add(made, start=made.start, aclose=made.aclose)


def _look(config: Config, store: Store) -> Callable[[float], Sequence[Crossing]]:
    qualities = _qualities(config, store)

    def look(now_s: float) -> Sequence[Crossing]:
        keys = store.keys.list()
        free = shutil.disk_usage(store.folder)
        found = [
            *events.engines(store.jobs.engine_states.now(now_s), now_s),
            *events.disk(free.free, free.total, now_s),
            *events.expiring(keys, now_s),
            *qualities(now_s),
        ]
        for who in _budgeted(store):
            found += events.budgets(who, store.allowances.standings(who.scope, now_s), now_s)
        return found

    return look


def _qualities(config: Config, store: Store) -> Callable[[float], Sequence[Crossing]]:
    """How offloaded answers stand: everybody's, read every few seconds, and each tenant's, read every minute."""
    references, bar = config.references(), config.learning.quality_alarm
    found: list[Crossing] = []
    of_tenants: list[Crossing] = []
    read_s = tenants_read_s = 0.0

    def look(now_s: float) -> Sequence[Crossing]:
        nonlocal found, read_s, of_tenants, tenants_read_s
        if references and abs(now_s - read_s) >= _QUALITY_EVERY_S:
            read_s = now_s
            standings = quality_standings(store.decisions.quality, references, bar, now_s)
            found = [crossing for one in standings for crossing in events.quality(one, now_s)]
        if references and abs(now_s - tenants_read_s) >= _TENANTS_EVERY_S:
            tenants_read_s = now_s
            standings = quality_of_tenants(store.decisions.quality, references, bar, now_s)
            names = _tenant_names(store)
            crossings = [
                crossing
                for one in standings
                for crossing in events.quality(one, now_s, names.get(one.tenant, ""))
            ]
            # Thousands are good and were: they are not looked up every second until the next read.
            of_tenants = store.jobs.webhooks.changed(crossings)
        return [*found, *of_tenants]

    return look


def _tenant_names(store: Store) -> dict[str, str]:
    named = {key.tenant: key.tenant_name for key in store.keys.list()}
    return named | {tenant.id: tenant.name for tenant in store.tenant_records.list()}


def _budgeted(store: Store) -> Iterator[Budgeted]:
    for key in store.keys.list():
        if key.revoked_at_s is None and key.limits.budgets:
            yield Budgeted("key", key.id, key.name, key.limits)
    for tenant in store.tenant_records.list():
        if tenant.limits.budgets:
            yield Budgeted("tenant", tenant.id, tenant.name, tenant.limits)
