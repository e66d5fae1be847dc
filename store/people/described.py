"""Keys and tenants as JSON objects for programs and people, and what changed between two of them. Never a secret."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from store.people.limits import as_json
from store.records import Key, Tenant


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
    return found | {
        "region": record.region,
        "retention": {
            "texts_days": kept.texts_days,
            "rows_days": kept.rows_days,
            "examples_days": kept.examples_days,
        },
        "closed_at": told(record.closed_at_s),
    }


def changes(before: Key | Tenant | None, after: Key | Tenant) -> dict[str, Any]:
    """By field what it was and what it is, for the audit log; of a new record what differs from a blank one."""
    new = described(after)
    if before is None:
        return {name: {"new": value} for name, value in new.items() if value and name not in _OF_ITSELF}
    old = described(before)
    return {name: {"old": old[name], "new": new[name]} for name in new if old.get(name) != new[name]}


_OF_ITSELF = ("id", "created_at", "tenant_id")


def told(at_s: float | None) -> str | None:
    """A time in ISO 8601, UTC; None for none."""
    return None if at_s is None else datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
