"""The audit log, newest first, a page at a time."""

from __future__ import annotations

from admin.page import Asked, Summary
from admin.sources import Sources

_ROWS = 100


def audit(sources: Sources, asked: Asked) -> Summary:
    """Filters: `user`, `action`; `before`, an id, for the next page."""
    user, action = asked.text("user", longest=64), asked.text("action", longest=100)
    before = asked.whole("before", 0)
    rows = sources.store.audit.page(before_id=before or None, user=user, action=action, limit=_ROWS + 1)
    return {
        "user": user,
        "action": action,
        "rows": [
            {
                "id": row.id,
                "at_s": row.at_s,
                "user": row.user,
                "action": row.action,
                "target": row.target,
                "outcome": row.outcome,
                "address": row.address,
                "detail": dict(row.detail),
            }
            for row in rows[:_ROWS]
        ],
        "older": rows[_ROWS - 1].id if len(rows) > _ROWS else None,
        "users": [user.name for user in sources.store.operators.list()],
    }
