"""The audit log, newest first, a page at a time: what was done on these pages, by programs and by commands."""

from __future__ import annotations

from typing import cast

from admin.page import Asked, Summary
from admin.sources import Sources
from admin.summaries.forgetting import STATED
from store.people.audit import AuditOutcome

_ROWS = 100
_OUTCOMES = ("", "done", "failed", "refused")


def audit(sources: Sources, asked: Asked) -> Summary:
    """Filters: `user`; parts of `action` and `target`; `outcome`; `from` and `to`. `before`, an id, for the next page."""
    user, action = asked.text("user", longest=64), asked.text("action", longest=100)
    target, outcome = asked.text("target", longest=200), asked.choice("outcome", _OUTCOMES, "")
    since_s, until_s = asked.time("from"), asked.time("to")
    before = asked.whole("before", 0)
    rows = sources.store.audit.page(
        before_id=before or None,
        user=user,
        action=action,
        target=target,
        outcome=cast("AuditOutcome", outcome),
        since_s=since_s or 0.0,
        until_s=1e11 if until_s is None else until_s,
        limit=_ROWS + 1,
    )
    return {
        "user": user,
        "action": action,
        "target": target,
        "outcome": outcome,
        "from_s": since_s,
        "to_s": until_s,
        "filtered": bool(user or action or target or outcome or since_s or until_s),
        "outcomes": [one for one in _OUTCOMES if one],
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
                "statement": row.action in STATED and row.outcome == "done",
            }
            for row in rows[:_ROWS]
        ],
        "older": rows[_ROWS - 1].id if len(rows) > _ROWS else None,
        "users": sources.store.audit.users(),
    }
