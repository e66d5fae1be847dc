"""How keys and tenants lie in their tables: columns in one order, limits as JSON text."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Protocol

from store.errors import StoreFailed
from store.people.limits import UNLIMITED, Limits, as_json, limits_from
from store.records import Key, Partition, Retention, Tenant

_REMEMBERED = 20_000
"""Records that are not read anew each time another one changes: the event loop waits for that."""
_TERMS = "limits, each_user, expires_at_s, memory_partition, users_required, source"
_KEY = f"id, tenant, name, prefix, created_at_s, revoked_at_s, tenant_name, {_TERMS}"
_TENANT = f"id, name, created_at_s, {_TERMS}, region, retention, closed_at_s"


def _marks(columns: str) -> str:
    return ", ".join("?" * len(columns.split(",")))


def _set(columns: str) -> str:
    """Every column but the first, which is the id, to a parameter."""
    return ", ".join(f"{column} = ?" for column in columns.split(", ")[1:])


# All of our own constants.
SELECT_KEYS = f"SELECT {_KEY} FROM api_keys"  # noqa: S608
SELECT_SECRETS = f"SELECT secret_hmac, {_KEY} FROM api_keys"  # noqa: S608
INSERT_KEY = f"INSERT INTO api_keys (secret_hmac, {_KEY}) VALUES (?, {_marks(_KEY)})"  # noqa: S608
UPDATE_KEY = f"UPDATE api_keys SET {_set(_KEY)} WHERE id = ?"  # noqa: S608
SELECT_TENANTS = f"SELECT {_TENANT} FROM tenants"  # noqa: S608
INSERT_TENANT = f"INSERT INTO tenants ({_TENANT}) VALUES ({_marks(_TENANT)})"  # noqa: S608
UPDATE_TENANT = f"UPDATE tenants SET {_set(_TENANT)} WHERE id = ?"  # noqa: S608


class _WithTerms(Protocol):
    @property
    def limits(self) -> Limits: ...
    @property
    def each_user(self) -> Limits: ...
    @property
    def expires_at_s(self) -> float | None: ...
    @property
    def partition(self) -> Partition | None: ...
    @property
    def users_required(self) -> bool | None: ...
    @property
    def source(self) -> str: ...


def key_row(key: Key) -> tuple[Any, ...]:
    """A key's values in the order of SELECT_KEYS."""
    return (
        *(key.id, key.tenant, key.name, key.prefix, key.created_at_s, key.revoked_at_s, key.tenant_name),
        *_terms_row(key),
    )


@lru_cache(maxsize=_REMEMBERED)
def key_from(row: tuple[Any, ...], rotated_until_s: float | None = None) -> Key:
    """The key of a row of SELECT_KEYS."""
    limits, each_user, expires_at_s, partition, required, source = _terms_from(row[7:])
    id, tenant, name, prefix, created_at_s, revoked_at_s, tenant_name = row[:7]
    return Key(
        id,
        tenant,
        name,
        prefix,
        created_at_s,
        revoked_at_s,
        tenant_name,
        limits=limits,
        each_user=each_user,
        expires_at_s=expires_at_s,
        partition=partition,
        users_required=required,
        source=source,
        rotated_until_s=rotated_until_s,
    )


def tenant_row(tenant: Tenant) -> tuple[Any, ...]:
    """A tenant's values in the order of SELECT_TENANTS."""
    kept = tenant.retention
    days = {"texts": kept.texts_days, "rows": kept.rows_days, "examples": kept.examples_days}
    return (
        *(tenant.id, tenant.name, tenant.created_at_s),
        *_terms_row(tenant),
        tenant.region,
        json.dumps({name: value for name, value in days.items() if value is not None}),
        tenant.closed_at_s,
    )


def tenant_from(row: tuple[Any, ...]) -> Tenant:
    """The tenant of a row of SELECT_TENANTS."""
    limits, each_user, expires_at_s, partition, required, source = _terms_from(row[3:9])
    days = json.loads(row[10])
    id, name, created_at_s = row[:3]
    return Tenant(
        id,
        name,
        created_at_s,
        limits=limits,
        each_user=each_user,
        expires_at_s=expires_at_s,
        partition=partition,
        users_required=required,
        source=source,
        region=row[9],
        retention=Retention(days.get("texts"), days.get("rows"), days.get("examples")),
        closed_at_s=row[11],
    )


def _terms_row(of: _WithTerms) -> tuple[Any, ...]:
    required = None if of.users_required is None else int(of.users_required)
    limits, each_user = json.dumps(as_json(of.limits)), json.dumps(as_json(of.each_user))
    return limits, each_user, of.expires_at_s, of.partition, required, of.source


def _terms_from(row: tuple[Any, ...]) -> tuple[Any, ...]:
    limits, each_user, expires_at_s, partition, required, source = row
    known = None if required is None else bool(required)
    return _limits(limits), _limits(each_user), expires_at_s, partition, known, source


@lru_cache(maxsize=_REMEMBERED)
def _limits(text: str) -> Limits:
    """Raises StoreFailed: limits that cannot be read must not become none."""
    try:
        return UNLIMITED if text == "{}" else limits_from(json.loads(text))
    except ValueError as error:
        raise StoreFailed(f"the limits of a key or tenant cannot be read: {error}") from error
