"""What people said of answers: one row per feedback, committed together with the outcomes that follow from it.

Comments are text of a person's and go with that person; nobody learns from them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, fields
from typing import Any

from store.decisions import outcomes
from store.records import OutcomeRecord
from store.sqlite.database import Database


@dataclass(frozen=True, slots=True)
class FeedbackRecord:
    """One feedback to one request's answer."""

    tenant: str
    key: str
    """Unique per tenant: the same again adds nothing."""
    content_digest: str
    """Of everything that was said: tells a repetition from another feedback under the same key."""
    request_id: str
    contributor: str
    """Who gave it, as of Example.contributor."""
    at_s: float
    score: float | None = None
    """0 to 1."""
    thumb: str = ""
    """up, down or nothing."""
    preferred_over: str = ""
    """The request whose answer was worse, or nothing."""
    correction: str = ""
    """The id of the example that a corrected answer became, or nothing."""
    comment: str = ""
    id: int = 0
    """0 before it is stored."""


class FeedbackLog:
    """Appends feedback and reads it. Every look-up names a tenant."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def give(
        self, feedback: FeedbackRecord, follows: Sequence[OutcomeRecord]
    ) -> Future[tuple[FeedbackRecord, bool]]:
        """Keep a feedback and the outcomes that follow, together or not at all; gives it, and whether it is new.

        The same (tenant, key) again gives the first back and notes nothing. Raises StoreBusy, and ValueError for
        outcomes that are none (see Outcomes.note).
        """
        for outcome in follows:
            outcomes.check(outcome)

        def insert(connection: sqlite3.Connection) -> tuple[FeedbackRecord, bool]:
            added = connection.execute(_INSERT, [getattr(feedback, name) for name in _NAMES]).rowcount > 0
            if added:
                for outcome in follows:
                    outcomes.insert(connection, outcome)
            row = connection.execute(
                _SELECT + " WHERE tenant = ? AND key = ?", (feedback.tenant, feedback.key)
            ).fetchone()
            return FeedbackRecord(*row), added

        return self._db.write(insert)

    def find(self, tenant: str, key: str) -> FeedbackRecord | None:
        """The tenant's feedback with this key, or None."""
        row = self._db.read().execute(_SELECT + " WHERE tenant = ? AND key = ?", (tenant, key)).fetchone()
        return FeedbackRecord(*row) if row is not None else None

    def of(self, tenant: str, request_id: str) -> list[FeedbackRecord]:
        """All feedback to one request of the tenant's, in the order in which it came."""
        rows = self._db.read().execute(
            _SELECT + " WHERE tenant = ? AND request_id = ? ORDER BY id", (tenant, request_id)
        )
        return [FeedbackRecord(*row) for row in rows.fetchall()]

    def trim(self, before_s: float, limit: int = 10_000) -> Future[int]:
        """Delete feedback older than `before_s`, at most `limit` at once; gives how many."""
        return self._delete(
            "DELETE FROM feedback WHERE id IN (SELECT id FROM feedback WHERE at_s < ? ORDER BY at_s LIMIT ?)",
            before_s,
            limit,
        )

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete all feedback of a tenant; gives how many."""
        return self._delete("DELETE FROM feedback WHERE tenant = ?", tenant)

    def forget_contributor(self, tenant: str, contributor: str) -> Future[int]:
        """Delete what one contributor said, and what was said of answers to them; gives how many.

        Raises ValueError for an empty contributor.
        """
        if not contributor:
            raise ValueError("an empty contributor is nobody: name one, or forget the tenant")
        return self._delete(
            "DELETE FROM feedback WHERE tenant = ?1 AND (contributor = ?2 OR request_id IN"
            " (SELECT request_id FROM choices WHERE tenant = ?1 AND contributor = ?2 AND contributor <> ''))",
            tenant,
            contributor,
        )

    def _delete(self, statement: str, *values: Any) -> Future[int]:
        return self._db.write(
            lambda connection: connection.execute(statement, values).rowcount,
            after=lambda _: self._db.scrub_soon(),
        )


_NAMES = tuple(field.name for field in fields(FeedbackRecord) if field.name != "id")
_SELECT = f"SELECT {', '.join(_NAMES)}, id FROM feedback"  # noqa: S608 - a constant
_INSERT = (
    f"INSERT INTO feedback ({', '.join(_NAMES)})"  # noqa: S608 - a constant
    f" VALUES ({', '.join('?' * len(_NAMES))}) ON CONFLICT (tenant, key) DO NOTHING"
)
