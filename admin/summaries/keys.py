"""Keys: one with what it may use and has used; making, changing, rotating and revoking."""

from __future__ import annotations

from typing import Any

from admin.page import ActionFailed, Asked, BadParameter, Done, NotThere, Summary
from admin.sources import Sources
from admin.summaries.limit_use import DAYS, limit_use, usage_by
from admin.summaries.tenants import name_of
from admin.terms_form import changed_by_form, refused, terms_sent, terms_shown, version_of
from learning.bank.left_behind import left_behind
from store.decisions.rollups import DAY_S
from store.people.described import changes, described, state_of, terms_of
from store.people.keys import KeptInConfiguration, NoSuchKey
from store.records import Key

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


def create_key(sources: Sources, asked: Asked) -> Done:
    """Makes a key for `tenant`, with the terms of the form; its secret is shown this once."""
    tenant, name = asked.text("tenant", longest=200), asked.text("name", "unnamed", longest=200)
    fields = terms_sent(asked)
    expires_s = asked.time("expires")
    if expires_s is not None and expires_s <= asked.now_s:
        raise BadParameter("That time has passed: a key that has ended opens nothing.", "expires")
    first = not sources.store.keys.any_configured()
    try:
        made, secret = sources.store.keys.create(tenant, name, terms=_terms(fields))
    except ValueError as error:
        field = "tenant" if "tenant name" in str(error) else "name"
        raise ActionFailed(f"{error}.", field) from error
    return Done(
        f"Key {made.id} of tenant {tenant} is made.",
        target=made.id,
        detail={"tenant": made.tenant} | changes(None, made),
        shown={
            "secret": secret,
            "key": made.id,
            "tenant": tenant,
            "tenant_id": made.tenant,
            "name": name,
            "first": first,
            "rotated": False,
            "until_s": None,
            "left_behind": left_behind(sources.store, tenant) if first else [],
        },
    )


def edit_key(sources: Sources, asked: Asked) -> Done:
    """Changes a key's name and what it may use: every field of the form, as it was sent."""
    id = asked.path["id"]
    fields = terms_sent(asked) | {"name": asked.text("name", "unnamed", longest=200)}
    try:
        before, after = sources.store.keys.edit(id, changed_by_form(asked, fields))
    except NoSuchKey as error:
        raise NotThere(f"{error}.") from error
    except KeptInConfiguration as error:
        raise ActionFailed(f"{error}.") from error
    except ValueError as error:
        raise refused(error) from error
    detail = changes(before, after)
    said = (
        f"Saved: {', '.join(sorted(detail))}. Workers follow within a second."
        if detail
        else "It was so already."
    )
    return Done(said, f"/keys/{id}", target=id, detail=detail)


def rotate_key(sources: Sources, asked: Asked) -> Done:
    """Gives a key another secret, shown this once. Form fields: `grace_h`, hours for which the old one is still taken, and
    `version` as the page gave it."""
    id, version = asked.path["id"], asked.text("version")
    grace_s = (asked.number("grace_h", 0.0, least=0, most=_MOST_GRACE_H) or 0.0) * _HOUR_S

    def check(now: Key) -> None:
        if version not in ("", version_of(now)):
            raise ActionFailed(
                "Somebody else has changed this key meanwhile; its secret may be another one already. Nothing was changed:"
                " look at what is in force, and rotate again if it is still wanted.",
                "version",
            )

    try:
        found, secret = sources.store.keys.rotate(id, grace_s, check=check)
    except NoSuchKey as error:
        raise NotThere(f"{error}.") from error
    except (KeptInConfiguration, ValueError) as error:
        raise ActionFailed(f"{error}.") from error
    return Done(
        f"Key {id} has another secret.",
        target=id,
        detail={"grace_s": grace_s, "prefix": found.prefix},
        shown={
            "secret": secret,
            "key": id,
            "tenant": found.tenant_name,
            "tenant_id": found.tenant,
            "name": found.name,
            "first": False,
            "rotated": True,
            "until_s": found.rotated_until_s if grace_s else None,
            "left_behind": [],
        },
    )


def revoke_key(sources: Sources, asked: Asked) -> Done:
    """Revokes `key`: workers refuse it within about a second."""
    id = asked.text("key", longest=100)
    try:
        before = sources.store.keys.get(id)
        after = sources.store.keys.revoke(id).result(_WRITE_S)
    except (NoSuchKey, KeptInConfiguration) as error:
        raise ActionFailed(f"{error}.") from error
    return Done(
        f"Key {id} is revoked: workers refuse it within a second.",
        f"/tenants/{after.tenant}",
        target=id,
        detail=changes(before, after),
    )


def _key(sources: Sources, id: str) -> Key:
    try:
        return sources.store.keys.get(id)
    except NoSuchKey as error:
        raise NotThere(f"There is no key {id[:60]}.") from error


def _terms(fields: dict[str, Any]) -> Any:
    try:
        return terms_of(fields)
    except ValueError as error:
        raise refused(error) from error
