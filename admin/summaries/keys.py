"""Keys: one with what it may use and has used."""

from __future__ import annotations

from admin.page import Asked, NotThere, Summary
from admin.sources import Sources
from admin.summaries.limit_use import DAYS, limit_use, usage_by
from admin.summaries.tenants import name_of
from admin.terms_form import terms_shown, version_of
from store.people.described import described, state_of
from store.people.keys import NoSuchKey
from store.records import Key
from store.sums import DAY_S

_WRITE_S = 30.0
_HOUR_S = 3600.0
_MOST_GRACE_H = 366 * 24


def key(sources: Sources, asked: Asked) -> Summary:
    """`id` of the path; `span`: day, week or month."""
    found = _key(sources, asked.path["id"])
    span = asked.choice("span", tuple(DAYS), "week")
    since_s = asked.now_s - DAYS[span] * DAY_S
    tenant = sources.store.tenant_records.get(found.tenant)
    of_tenant = (
        limit_use(sources, f"tenant:{tenant.id}", tenant.limits, asked.now_s) if tenant is not None else []
    )
    return {
        "key": described(found),
        "id": found.id,
        "tenant": found.tenant,
        "tenant_name": name_of(found.tenant, found.tenant_name),
        "state": state_of(found, asked.now_s),
        "created_at_s": found.created_at_s,
        "revoked_at_s": found.revoked_at_s,
        "expires_at_s": found.expires_at_s,
        "rotated_until_s": found.rotated_until_s,
        "in_configuration": found.source == "config",
        "terms": terms_shown(found),
        "form_version": version_of(found),
        "use": limit_use(sources, f"key:{found.id}", found.limits, asked.now_s),
        "use_of_tenant": of_tenant,
        "span": span,
        "models": usage_by(sources, "model", since_s, asked.now_s, tenant=found.tenant, key_id=found.id),
    }


def listed(found: Key, now_s: float) -> Summary:
    """One key in a list."""
    return {
        "id": found.id,
        "name": found.name,
        "prefix": found.prefix,
        "state": state_of(found, now_s),
        "created_at_s": found.created_at_s,
        "expires_at_s": found.expires_at_s,
        "revoked_at_s": found.revoked_at_s,
        "source": found.source,
        "limited": bool(described(found)["limits"] or described(found)["each_user"]),
    }


def _key(sources: Sources, id: str) -> Key:
    try:
        return sources.store.keys.get(id)
    except NoSuchKey as error:
        raise NotThere(f"There is no key {id[:60]}.") from error
