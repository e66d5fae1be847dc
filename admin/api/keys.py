"""Operations on the gateway's own API keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.api.route import PAGING, Answer, Call, Parameter, Problem, Route
from admin.roles import Role
from store.people.described import NewKey, Rotation, changes, described, patched, replaced, state_of
from store.records import Key
from store.validating import read, without_nulls

_WRITE_S = 30.0
_STATES = ("active", "expired", "revoked")


def list_keys(call: Call) -> Answer:
    """Keys without their secrets, oldest first."""
    after, limit = call.page()
    tenant, state = call.query.get("tenant"), call.query.get("state")
    if state is not None and state not in _STATES:
        raise Problem(400, "invalid", f"state is {state[:40]!r}; one of {', '.join(_STATES)} is right")
    found = [
        key
        for key in call.sources.store.keys.list()
        if (tenant is None or key.tenant_name == tenant)
        and (state is None or state_of(key, call.now_s) == state)
    ]
    if after:
        places = [place for place, key in enumerate(found) if key.id == after]
        if not places:
            raise Problem(400, "invalid", f"after is {after[:40]!r}; the `next` of a page is right")
        found = found[places[0] + 1 :]
    shown = [described(key) for key in found[:limit]]
    return Answer({"data": shown, "next": found[limit - 1].id if len(found) > limit else None})


def show_key(call: Call) -> Answer:
    """One key."""
    return Answer(described(call.sources.store.keys.get(call.path["id"])))


def create_key(call: Call) -> Answer:
    """Makes a key; its secret is in this answer only."""
    new = read(NewKey, without_nulls(call.body))
    key, secret_text = call.sources.store.keys.create(
        new.tenant, new.name, secret_text=new.secret, terms=new, source="api"
    )
    return _with_secret(key, secret_text, 201, changes(None, key))


def put_key(call: Call) -> Answer:
    """Lays down a key's terms; what is not named becomes as in a new key."""
    return _edited(call, lambda key: replaced(key, call.body))


def patch_key(call: Call) -> Answer:
    """Changes some of a key's terms."""
    return _edited(call, lambda key: patched(key, call.body))


def rotate_key(call: Call) -> Answer:
    """Gives a key another secret, which is in this answer only."""
    asked = read(Rotation, without_nulls(call.body))
    key, secret_text = call.sources.store.keys.rotate(
        call.path["id"], asked.grace_s, secret_text=asked.secret
    )
    return _with_secret(key, secret_text, 200, {"grace_s": asked.grace_s, "prefix": key.prefix})


def revoke_key(call: Call) -> Answer:
    """Takes a key out of use; once more changes nothing."""
    keys = call.sources.store.keys
    before = keys.get(call.path["id"])
    after = keys.revoke(before.id).result(_WRITE_S)
    return Answer(described(after), target=after.id, detail=changes(before, after))


def _edited(call: Call, change: Any) -> Answer:
    before, after = call.sources.store.keys.edit(call.path["id"], change)
    return Answer(described(after), target=after.id, detail=changes(before, after))


def _with_secret(key: Key, secret_text: str, status: int, detail: Mapping[str, Any]) -> Answer:
    body = {**described(key), "secret": secret_text}
    return Answer(body, status, key.id, detail, f"/api/keys/{key.id}" if status == 201 else "")


_FILTERS = (
    Parameter("tenant", "Only keys of the tenant with this name."),
    Parameter("state", "Only keys in this state.", {"type": "string", "enum": list(_STATES)}),
)
_CHANGE = Role.OPERATOR
ROUTES = (
    Route(
        "GET", "/api/keys", "keys/list", "List keys", list_keys, gives="Keys", parameters=(*_FILTERS, *PAGING)
    ),
    Route(
        "POST", "/api/keys", "keys/create", "Make a key", create_key, _CHANGE, "NewKey", "KeyWithSecret", 201
    ),
    Route("GET", "/api/keys/{id}", "keys/show", "Show a key", show_key, gives="Key"),
    Route(
        "PUT",
        "/api/keys/{id}",
        "keys/replace",
        "Lay down a key's terms",
        put_key,
        _CHANGE,
        "KeyFields",
        "Key",
    ),
    Route(
        "PATCH", "/api/keys/{id}", "keys/edit", "Change a key's terms", patch_key, _CHANGE, "KeyFields", "Key"
    ),
    Route("DELETE", "/api/keys/{id}", "keys/revoke", "Revoke a key", revoke_key, _CHANGE, gives="Key"),
    Route(
        "POST",
        "/api/keys/{id}/rotate",
        "keys/rotate",
        "Give a key another secret",
        rotate_key,
        _CHANGE,
        "Rotation",
        "KeyWithSecret",
    ),
)
