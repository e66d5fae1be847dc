"""How keys and tenants lie in their tables: a column for each field, limits as JSON text."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import lru_cache
from typing import Any

from store.errors import StoreFailed
from store.people.limits import UNLIMITED, Limits, Retention
from store.records import Key, Tenant
from store.validating import read, what_differs

_REMEMBERED = 20_000
"""Records that are not read anew each time another one changes: the event loop waits for that."""
_NAMED_OTHERWISE = {"partition": "memory_partition"}
"""Columns whose name is not their field's."""
_KEY_FIELDS = ("id", *(each.name for each in fields(Key) if each.name not in ("id", "rotated_until_s")))
_TENANT_FIELDS = ("id", *(each.name for each in fields(Tenant) if each.name != "id"))


def _listed(names: tuple[str, ...], form: str = "{}") -> str:
    return ", ".join(form.format(_NAMED_OTHERWISE.get(name, name)) for name in names)


# All of our own constants.
SELECT_KEYS = f"SELECT {_listed(_KEY_FIELDS)} FROM api_keys"  # noqa: S608
SELECT_SECRETS = f"SELECT secret_hmac, {_listed(_KEY_FIELDS)} FROM api_keys"  # noqa: S608
INSERT_KEY = (
    f"INSERT INTO api_keys (secret_hmac, {_listed(_KEY_FIELDS)}) VALUES (?, {_listed(_KEY_FIELDS, '?')})"  # noqa: S608
)
UPDATE_KEY = f"UPDATE api_keys SET {_listed(_KEY_FIELDS[1:], '{} = ?')} WHERE id = ?"  # noqa: S608
SELECT_TENANTS = f"SELECT {_listed(_TENANT_FIELDS)} FROM tenants"  # noqa: S608
INSERT_TENANT = f"INSERT INTO tenants ({_listed(_TENANT_FIELDS)}) VALUES ({_listed(_TENANT_FIELDS, '?')})"  # noqa: S608
UPDATE_TENANT = f"UPDATE tenants SET {_listed(_TENANT_FIELDS[1:], '{} = ?')} WHERE id = ?"  # noqa: S608


def key_row(key: Key) -> tuple[Any, ...]:
    """A key's values in the order of SELECT_KEYS."""
    return tuple(_column(getattr(key, name)) for name in _KEY_FIELDS)


@lru_cache(maxsize=_REMEMBERED)
def key_from(row: tuple[Any, ...], rotated_until_s: float | None = None) -> Key:
    """The key of a row of SELECT_KEYS."""
    return Key(**_values(_KEY_FIELDS, row), rotated_until_s=rotated_until_s)


def tenant_row(tenant: Tenant) -> tuple[Any, ...]:
    """A tenant's values in the order of SELECT_TENANTS."""
    return tuple(_column(getattr(tenant, name)) for name in _TENANT_FIELDS)


def tenant_from(row: tuple[Any, ...]) -> Tenant:
    """The tenant of a row of SELECT_TENANTS."""
    return Tenant(**_values(_TENANT_FIELDS, row))


def _column(value: Any) -> Any:
    if isinstance(value, Limits):
        return json.dumps(what_differs(value))
    if isinstance(value, Retention):
        # The column's names have no unit.
        days = what_differs(value)
        return json.dumps({name.removesuffix("_days"): number for name, number in days.items()})
    return int(value) if isinstance(value, bool) else value


def _values(names: tuple[str, ...], row: tuple[Any, ...]) -> dict[str, Any]:
    found = dict(zip(names, row, strict=True))
    found["limits"] = _limits(found["limits"])
    found["each_user"] = _limits(found["each_user"])
    if found["users_required"] is not None:
        found["users_required"] = bool(found["users_required"])
    if "retention" in found:
        days = json.loads(found["retention"])
        found["retention"] = Retention(**{f"{name}_days": number for name, number in days.items()})
    return found


@lru_cache(maxsize=_REMEMBERED)
def _limits(text: str) -> Limits:
    """Raises StoreFailed: limits that cannot be read must not become none."""
    try:
        return UNLIMITED if text == "{}" else read(Limits, json.loads(text))
    except ValueError as error:
        raise StoreFailed(f"the limits of a key or tenant cannot be read: {error}") from error
