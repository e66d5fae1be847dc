"""Operations on the gateway's own API keys."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from admin.operations.operation import By, Given, Outcome, operation
from admin.operations.people import (
    OneKey,
    Paging,
    edited,
    listed,
    refusals,
    refuse_if_changed,
)
from admin.roles import Role
from admin.sources import Sources
from learning.bank.left_behind import left_behind
from store.people.described import (
    KeyFields,
    NewKey,
    Rotation,
    changes,
    described,
    patched,
    replaced,
    state_of,
)
from store.records import Key
from store.validating import CLOSED, read, without_nulls

_WRITE_S = 30.0


@dataclass(frozen=True, slots=True, config=CLOSED)
class Filters(Paging):
    """Which keys."""

    tenant: str | None = Field(default=None, description="Only keys of the tenant with this name.")
    state: Literal["active", "expired", "revoked"] | None = Field(
        default=None, description="Only keys in this state."
    )


@operation("keys/list", role=Role.VIEWER)
def list_keys(sources: Sources, by: By, given: Filters) -> Outcome:
    """List keys with their tenants, without their secrets."""
    found = [
        key
        for key in sources.store.keys.list()
        if given.tenant in (None, key.tenant_name) and given.state in (None, state_of(key, by.now_s))
    ]
    if given.after:
        ids = [key.id for key in found]
        if given.after not in ids:
            raise ValueError(f"after is {given.after[:40]!r}; the `next` of a page is right")
        found = found[ids.index(given.after) + 1 :]
    more = found[given.limit - 1].id if len(found) > given.limit else None
    return listed([described(key) for key in found[: given.limit]], more)


@operation("keys/show", role=Role.VIEWER, arguments=("id",))
def show_key(sources: Sources, by: By, given: OneKey) -> Outcome:
    """Show what a key may use."""
    with refusals():
        return Outcome("", value=described(sources.store.keys.get(given.id)))


@operation("keys/create", input=NewKey)
def create_key(sources: Sources, by: By, given: Given) -> Outcome:
    """Create a key and print it, this once."""
    new = read(NewKey, without_nulls(given))
    if by.surface != "api" and new.expires_at_s is not None and new.expires_at_s <= by.now_s:
        raise ValueError("expires_at has passed: a key that has ended opens nothing; a time to come is right")
    first = not sources.store.keys.any_configured()
    with refusals():
        key, secret = sources.store.keys.create(
            new.tenant, new.name, secret_text=new.secret, terms=new, source=by.source
        )
    behind = left_behind(sources.store, new.tenant) if first and by.surface != "api" else []
    detail = {"tenant": key.tenant} | changes(None, key)
    return _with_secret(key, secret, detail, new.secret is None, first=first, left_behind=behind)


def _edited(change: Any, sources: Sources, by: By, given: Given) -> Outcome:
    """Change a key's terms; `change` is `patched` or `replaced`."""
    fields = {name: value for name, value in given.items() if name != "id"}
    return edited(sources.store.keys.edit, given["id"], by, lambda key: change(key, fields))


@operation("keys/edit", input=KeyFields, arguments=("id",))
def edit_key(sources: Sources, by: By, given: Given) -> Outcome:
    """Change what a key may use; what is not named stays, and `none` takes a limit back."""
    return _edited(patched, sources, by, given)


@operation("keys/replace", input=KeyFields)
def replace_key(sources: Sources, by: By, given: Given) -> Outcome:
    """Lay down a key's terms; what is not named becomes as in a new key."""
    return _edited(replaced, sources, by, given)


@operation("keys/rotate", input=Rotation, arguments=("id",))
def rotate_key(sources: Sources, by: By, given: Given) -> Outcome:
    """Give a key another secret and print it, this once. Without --grace the old one, and any before it, end at
    once.
    """
    asked = read(Rotation, without_nulls({name: value for name, value in given.items() if name != "id"}))
    with refusals():
        key, secret = sources.store.keys.rotate(
            given["id"],
            asked.grace_s,
            secret_text=asked.secret,
            check=lambda key: refuse_if_changed(by, key),
        )
    detail = {"grace_s": asked.grace_s, "prefix": key.prefix}
    return _with_secret(key, secret, detail, asked.secret is None, rotated=True)


@operation("keys/revoke", arguments=("id",))
def revoke_key(sources: Sources, by: By, given: OneKey) -> Outcome:
    """Revoke a key. Running gateways refuse it within about a second."""
    keys = sources.store.keys
    with refusals():
        before = keys.get(given.id)
        after = keys.revoke(before.id).result(_WRITE_S)
    said = f"Key {after.id} is revoked: workers refuse it within a second."
    return Outcome(said, after.id, changes(before, after), described(after))


def _with_secret(
    key: Key, secret: str, detail: dict[str, Any], drawn: bool, *, rotated: bool = False, **shown: Any
) -> Outcome:
    said = f"Key {key.id} of tenant {key.tenant_name!r} {'has another secret' if rotated else 'is made'}."
    said += (
        " It is not shown again: only a keyed hash of it is stored."
        if drawn
        else " Only a keyed hash is stored."
    )
    behind = shown.get("left_behind", [])
    page = {
        "secret": secret,
        "key": key.id,
        "tenant": key.tenant_name,
        "tenant_id": key.tenant,
        "name": key.name,
        "until_s": key.rotated_until_s if detail.get("grace_s") else None,
        "first": False,
        "rotated": rotated,
        "left_behind": [],
        **shown,
    }
    value = {**described(key), "secret": secret}
    return Outcome(said, key.id, detail, value, secret if drawn else "", "\n".join(behind), shown=page)
