"""Tenants and their keys: their use, making a key (shown once) and revoking one."""

from __future__ import annotations

from admin.page import ActionFailed, Asked, Done, Summary
from admin.sources import Sources
from learning.bank.left_behind import left_behind
from store.people.keys import KeptInConfiguration, NoSuchKey

_DAYS = {"day": 1, "week": 7, "month": 30}
_MOST = 500
_WRITE_S = 30.0


def tenants(sources: Sources, asked: Asked) -> Summary:
    """For `span`: day, week or month, over which use is counted."""
    span = asked.choice("span", tuple(_DAYS), "week")
    since_s = asked.now_s - _DAYS[span] * 86_400
    sources.rollups.catch_up()
    keys = sources.store.keys.list()
    names = sources.tenant_names()
    by_key = {key: counts for key, *counts in sources.rollups.by_key(since_s)}
    by_tenant = {tenant: counts for tenant, *counts in sources.rollups.by_tenant(since_s)}
    found = []
    for tenant in sorted(
        {*names, *by_tenant}, key=lambda one: (-by_tenant.get(one, [0])[0], names.get(one, one))
    )[:_MOST]:
        requests, cost_usd, tokens = by_tenant.get(tenant, (0, 0.0, 0))
        bank = sources.store.examples.totals(tenant)
        found.append(
            {
                "id": tenant,
                "name": names.get(tenant, ""),
                "requests": requests,
                "cost_usd": cost_usd,
                "tokens": tokens,
                "examples": bank.examples,
                "bank_bytes": bank.size_bytes,
                "keys": [
                    {
                        "id": key.id,
                        "name": key.name,
                        "prefix": key.prefix,
                        "created_at_s": key.created_at_s,
                        "revoked_at_s": key.revoked_at_s,
                        "requests": (by_key.get(key.id) or [0])[0],
                        "cost_usd": (by_key.get(key.id) or [0, 0.0])[1],
                        "tokens": (by_key.get(key.id) or [0, 0.0, 0])[2],
                    }
                    for key in keys
                    if key.tenant == tenant
                ],
            }
        )
    return {
        "span": span,
        "since_s": since_s,
        "open": not keys,
        "more": max(0, len({*names, *by_tenant}) - _MOST),
        "tenants": found,
    }


def create_key(sources: Sources, asked: Asked) -> Done:
    """Makes a key for `tenant`; its secret is shown this once."""
    tenant, name = asked.text("tenant", longest=200), asked.text("name", "unnamed", longest=200)
    first = not sources.store.keys.any_configured()
    try:
        key, secret = sources.store.keys.create(tenant, name)
    except ValueError as error:
        raise ActionFailed(f"{error}.") from error
    return Done(
        f"Key {key.id} of tenant {tenant} is made.",
        target=key.id,
        detail={"tenant": key.tenant},
        shown={
            "secret": secret,
            "key": key.id,
            "tenant": tenant,
            "name": name,
            "first": first,
            "left_behind": left_behind(sources.store, tenant) if first else [],
        },
    )


def revoke_key(sources: Sources, asked: Asked) -> Done:
    """Revokes `key`: workers refuse it within about a second."""
    id = asked.text("key", longest=100)
    try:
        key = sources.store.keys.revoke(id).result(_WRITE_S)
    except (NoSuchKey, KeptInConfiguration) as error:
        raise ActionFailed(f"{error}.") from error
    return Done(f"Key {key.id} is revoked: workers refuse it within a second.", target=key.id)
