"""Keys and tenants as JSON objects for programs and people: told, changed field by field, compared. Never a secret."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Annotated, Any, TypeVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from store.people.limits import Flag, Region, Retention, Terms, names_of
from store.records import Key, Tenant
from store.validating import CLOSED, adapter, read, right, what_differs, without_nulls

Record = TypeVar("Record", Key, Tenant)
Name = Annotated[
    str,
    Field(strict=True, min_length=1, max_length=200),
    right("a text of 1 to 200 characters"),
]
Secret = Annotated[
    str,
    Field(strict=True, json_schema_extra={"minLength": 16, "maxLength": 512}),
    right("a text"),
]
"""Its length is checked where it is not shown: store.people.keys.check_secret."""


@dataclass(frozen=True, slots=True, config=CLOSED)
class KeyFields(Terms):
    """What may be changed about a key."""

    name: Name = "unnamed"


@dataclass(frozen=True, slots=True, config=CLOSED)
class NewKey(KeyFields):
    """What a key is made of."""

    tenant: Name = Field(
        default="default", description="The name of its tenant; keys of one tenant share memory."
    )
    secret: Secret | None = Field(
        default=None, repr=False, description="What clients have already; without it one is drawn."
    )


@dataclass(frozen=True, slots=True, config=CLOSED)
class Rotation:
    """How a key gets another secret."""

    grace_s: Annotated[float, Field(strict=True, ge=0, le=366 * 86_400), right("0 s to 366 days")] = Field(
        default=0.0, description="For how many seconds the old secret is still taken."
    )
    secret: Secret | None = Field(
        default=None, repr=False, description="What clients have already; without it one is drawn."
    )


@dataclass(frozen=True, slots=True, config=CLOSED)
class TenantFields(Terms):
    """What may be changed about a tenant."""

    region: Region = ""
    retention: Retention = Retention()
    closed: Flag = Field(default=False, description="Whether its keys are refused until it is opened again.")


def described(record: Key | Tenant) -> dict[str, Any]:
    """What is laid down, by the names under which the command line and the admin API take it."""
    told = adapter(type(record)).dump_python(record, mode="json", by_alias=True)
    told |= {"limits": what_differs(record.limits), "each_user": what_differs(record.each_user)}
    if isinstance(record, Tenant):
        told |= {"retention": what_differs(record.retention), "closed": record.closed_at_s is not None}
    return {"id": record.id, "name": record.name, **told}


def patched(record: Record, patch: Mapping[str, Any]) -> Record:
    """The record with these fields; objects are merged, and null takes a value back (RFC 7396).

    Raises ValueError for an unknown field, one that cannot be changed, and a value that cannot be right.
    """
    now = described(record)
    kept = {name: now[name] for name in names_of(_fields_of(record))}
    return replaced(record, kept | {name: _merged(now.get(name), value) for name, value in patch.items()})


def replaced(record: Record, given: Mapping[str, Any]) -> Record:
    """The record with these fields, and what is not among them as in a new one. Raises ValueError as `patched`."""
    kind, now = _fields_of(record), described(record)
    for name in now.keys() & given.keys() - set(names_of(kind)):
        if given[name] != now[name]:
            raise ValueError(f"{name} cannot be changed")
    open_ones = {name: value for name, value in given.items() if name in names_of(kind) or name not in now}
    taken = read(kind, without_nulls(open_ones))
    values = {each.name: getattr(taken, each.name) for each in fields(taken)}
    if isinstance(taken, TenantFields) and isinstance(record, Tenant):
        values["closed_at_s"] = (record.closed_at_s or time.time()) if values.pop("closed") else None
    return replace(record, **values)


def terms_of(given: Mapping[str, Any]) -> Terms:
    """The terms among the fields of a record; what is not named is as in a new one. Raises ValueError."""
    named = names_of(Terms)
    return read(Terms, without_nulls({name: value for name, value in given.items() if name in named}))


def changes(before: Key | Tenant | None, after: Key | Tenant) -> dict[str, Any]:
    """By field what it was and what it is, for the audit log; of a new record what differs from a blank one."""
    new = described(after)
    if before is None:
        return {name: {"new": value} for name, value in new.items() if value and name not in _OF_ITSELF}
    old = described(before)
    return {name: {"old": old[name], "new": new[name]} for name in new if old.get(name) != new[name]}


def state_of(key: Key, now_s: float) -> str:
    """revoked, expired or active."""
    if key.revoked_at_s is not None:
        return "revoked"
    return "expired" if key.expires_at_s is not None and key.expires_at_s <= now_s else "active"


_OF_ITSELF = ("id", "created_at", "tenant_id")


def _fields_of(record: Key | Tenant) -> type[KeyFields] | type[TenantFields]:
    return KeyFields if isinstance(record, Key) else TenantFields


def _merged(now: Any, value: Any) -> Any:
    if not isinstance(value, Mapping) or not isinstance(now, Mapping):
        return value
    return {**now, **value}
