"""Keys and tenants as JSON objects for programs and people: told, changed field by field, compared. Never a secret."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from store.people.limits import as_json, limits_from
from store.records import Key, Retention, Tenant, Terms

Record = TypeVar("Record", Key, Tenant)

_TERMS: dict[str, Any] = {
    "limits": {},
    "each_user": {},
    "expires_at": None,
    "partition": None,
    "users_required": None,
}
KEY_FIELDS = {"name": "unnamed", **_TERMS}
"""What may be changed about a key, with what stands there where nothing is said."""
TENANT_FIELDS = {**_TERMS, "region": "", "retention": {}, "closed": False}
"""The same for a tenant."""


def described(record: Key | Tenant) -> dict[str, Any]:
    """What is laid down, by the names under which the command line and the admin API take it."""
    found: dict[str, Any] = {
        "id": record.id,
        "name": record.name,
        "limits": as_json(record.limits),
        "each_user": as_json(record.each_user),
        "expires_at": told(record.expires_at_s),
        "partition": record.partition,
        "users_required": record.users_required,
        "source": record.source,
        "created_at": told(record.created_at_s),
    }
    if isinstance(record, Key):
        return found | {
            "tenant": record.tenant_name,
            "tenant_id": record.tenant,
            "prefix": record.prefix,
            "revoked_at": told(record.revoked_at_s),
            "rotated_until": told(record.rotated_until_s),
        }
    kept = record.retention
    days = {"texts_days": kept.texts_days, "rows_days": kept.rows_days, "examples_days": kept.examples_days}
    return found | {
        "region": record.region,
        "retention": {name: value for name, value in days.items() if value is not None},
        "closed": record.closed_at_s is not None,
        "closed_at": told(record.closed_at_s),
    }


def patched(record: Record, patch: Mapping[str, Any]) -> Record:
    """The record with these fields; objects are merged, and null takes a value back (RFC 7396).

    Raises ValueError for an unknown field, one that cannot be changed, and a value that cannot be right.
    """
    now = described(record)
    return _read(record, {name: _merged(now.get(name), value) for name, value in patch.items()})


def replaced(record: Record, fields: Mapping[str, Any]) -> Record:
    """The record with these fields, and what is not among them as in a new one. Raises ValueError as `patched`."""
    blank = KEY_FIELDS if isinstance(record, Key) else TENANT_FIELDS
    return _read(record, {**blank, **fields})


def terms_of(fields: Mapping[str, Any], base: Terms | None = None) -> Terms:
    """The terms among these fields; what is not named is as in `base`. Raises ValueError."""
    terms = base or Terms()
    return Terms(
        _limits(fields, "limits", terms.limits),
        _limits(fields, "each_user", terms.each_user),
        at_s(fields["expires_at"], "expires_at") if "expires_at" in fields else terms.expires_at_s,
        fields.get("partition", terms.partition),
        fields.get("users_required", terms.users_required),
    )


def retention_of(value: object) -> Retention:
    """From {texts_days, rows_days, examples_days}. Raises ValueError."""
    if not isinstance(value, Mapping):
        raise ValueError("retention is no object; one with texts_days, rows_days, examples_days is right")
    for name, days in value.items():
        if name not in ("texts_days", "rows_days", "examples_days"):
            raise ValueError(f"retention has {str(name)[:60]!r}, which is not known")
        if days is not None and (isinstance(days, bool) or not isinstance(days, int | float)):
            raise ValueError(f"retention.{name} is {str(days)[:60]!r}; a number of days is right")
    return Retention(value.get("texts_days"), value.get("rows_days"), value.get("examples_days"))


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


def told(at_s: float | None) -> str | None:
    """A time in ISO 8601, UTC; None for none."""
    if at_s is None:
        return None
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")


def at_s(value: object, name: str) -> float | None:
    """Seconds since 1970 of a time in ISO 8601, UTC where it says no offset; None for null. Raises ValueError."""
    if value is None:
        return None
    try:
        assert isinstance(value, str)
        at = datetime.fromisoformat(value)
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    except (AssertionError, ValueError, OverflowError):
        raise ValueError(f"{name} is {str(value)[:60]!r}; such as 2027-01-31T00:00:00Z is right") from None


_OF_ITSELF = ("id", "created_at", "tenant_id")


def _merged(now: Any, value: Any) -> Any:
    if not isinstance(value, Mapping) or not isinstance(now, Mapping):
        return value
    return {name: one for name, one in {**now, **value}.items() if one is not None}


def _read(record: Record, fields: Mapping[str, Any]) -> Record:
    now = described(record)
    open_ones = KEY_FIELDS if isinstance(record, Key) else TENANT_FIELDS
    for name, value in fields.items():
        if name not in now:
            raise ValueError(
                f"there is {str(name)[:60]!r}, which is not known; known: {', '.join(open_ones)}"
            )
        if name not in open_ones and value != now[name]:
            raise ValueError(f"{name} cannot be changed")
    terms = terms_of(
        fields,
        Terms(record.limits, record.each_user, record.expires_at_s, record.partition, record.users_required),
    )
    found = replace(
        record,
        limits=terms.limits,
        each_user=terms.each_user,
        expires_at_s=terms.expires_at_s,
        partition=terms.partition,
        users_required=terms.users_required,
    )
    if isinstance(found, Key):
        name = fields.get("name", found.name)
        if not isinstance(name, str):
            raise ValueError(f"name is {str(name)[:60]!r}; a text is right")
        return replace(found, name=name)
    return _read_tenant(found, fields)


def _read_tenant(tenant: Tenant, fields: Mapping[str, Any]) -> Tenant:
    region, closed = fields.get("region", tenant.region), fields.get("closed")
    if region is not None and not isinstance(region, str):
        raise ValueError(f"region is {str(region)[:60]!r}; a text is right")
    if closed is not None and not isinstance(closed, bool):
        raise ValueError(f"closed is {str(closed)[:60]!r}; true or false is right")
    if "retention" in fields:
        tenant = replace(tenant, retention=retention_of(fields["retention"] or {}))
    if "closed" in fields:
        tenant = replace(tenant, closed_at_s=(tenant.closed_at_s or time.time()) if closed else None)
    return replace(tenant, region=region or "")


def _limits(fields: Mapping[str, Any], name: str, otherwise: Any) -> Any:
    if name not in fields:
        return otherwise
    value = {} if fields[name] is None else fields[name]
    if isinstance(value, Mapping):
        value = {one: held for one, held in value.items() if held is not None}
    return limits_from(value, name)
