"""Who did what on the admin pages, when, from where, and what came of it. Rows are added, and dropped when old."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

from store.database import Database
from store.plain import plain

AuditOutcome = Literal["done", "failed", "refused"]


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One row. Holds no content and no secret."""

    at_s: float
    user: str
    """Empty where nobody was signed in."""
    action: str
    target: str
    outcome: AuditOutcome
    address: str
    detail: Mapping[str, Any]
    id: int = 0


class AuditLog:
    """A log of what people did."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def note(self, record: AuditRecord) -> Future[None]:
        """Append one. Texts are cut to what a log line may hold. Raises StoreBusy."""
        row = (
            record.at_s,
            plain(record.user[:64]),
            plain(record.action[:100]),
            plain(record.target[:200]),
            record.outcome,
            plain(record.address[:64]),
            json.dumps(dict(record.detail))[:4000],
        )

        def insert(connection: Any) -> None:
            connection.execute(
                "INSERT INTO audit_log (at_s, user_name, action, target, outcome, address, detail)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )

        return self._db.write(insert)

    def page(
        self,
        *,
        before_id: int | None = None,
        user: str = "",
        action: str = "",
        target: str = "",
        outcome: AuditOutcome | Literal[""] = "",
        since_s: float = 0.0,
        until_s: float = 1e11,
        limit: int = 100,
    ) -> list[AuditRecord]:
        """The latest rows older than `before_id`, newest first.

        Of one user if named; whose action or target has a text in it; with one outcome; of [since_s, until_s).
        """
        rows = self._db.read().execute(
            "SELECT at_s, user_name, action, target, outcome, address, detail, id FROM audit_log"
            " WHERE id < :before AND (:user = '' OR user_name = :user)"
            " AND (:action = '' OR instr(action, :action) > 0) AND (:target = '' OR instr(target, :target) > 0)"
            " AND (:outcome = '' OR outcome = :outcome) AND at_s >= :since AND at_s < :until"
            " ORDER BY id DESC LIMIT :limit",
            {
                "before": before_id or 2**62,
                "user": user,
                "action": action,
                "target": target,
                "outcome": outcome,
                "since": since_s,
                "until": until_s,
                "limit": limit,
            },
        )
        return [
            AuditRecord(at_s, who, what, target, outcome, address, _detail(detail), id)
            for at_s, who, what, target, outcome, address, detail, id in rows.fetchall()
        ]

    def users(self) -> list[str]:
        """Whoever did something, by name: people, programs' tokens, and who ran commands."""
        rows = self._db.read().execute(
            "SELECT DISTINCT user_name FROM audit_log WHERE user_name <> '' ORDER BY user_name"
        )
        return [name for (name,) in rows.fetchall()]

    def trim(self, before_s: float, limit: int = 10_000) -> Future[int]:
        """Delete rows older than `before_s`, at most `limit` at once; gives how many."""
        return self._db.write(
            lambda connection: (
                connection.execute(
                    "DELETE FROM audit_log WHERE id IN"
                    " (SELECT id FROM audit_log WHERE at_s < ? ORDER BY at_s LIMIT ?)",
                    (before_s, limit),
                ).rowcount
            )
        )


def _detail(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        # It was cut.
        return {"cut": text}
    return found if isinstance(found, dict) else {"value": found}
