"""What outcomes of a period come to: how good sampled answers were, and what finding out cost. For pages to show."""

from __future__ import annotations

from dataclasses import dataclass

from store.sqlite.database import Database


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """One judgement of an answer that a client got."""

    model: str
    engine: str
    quality: float
    probability: float
    """With which it was picked for judging."""


class OutcomeSums:
    """Reads by time; of one tenant if named."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def judged(self, since_s: float, tenant: str | None = None, limit: int = 2_000) -> list[JudgedAnswer]:
        """The latest judgements of answers that were served since a time."""
        rows = self._db.read().execute(
            "SELECT model, engine, quality, probability FROM outcomes WHERE at_s >= :since AND source = 'judge'"
            " AND served = 1 AND (:tenant IS NULL OR tenant = :tenant) ORDER BY at_s DESC LIMIT :limit",
            {"since": since_s, "tenant": tenant, "limit": limit},
        )
        return [JudgedAnswer(*row) for row in rows.fetchall()]

    def feedback(self, since_s: float, tenant: str | None = None) -> tuple[int, float | None]:
        """How many answers people spoke of since a time, and the mean of the quality that follows."""
        row = (
            self._db.read()
            .execute(
                "SELECT count(*), avg(quality) FROM outcomes WHERE at_s >= :since AND source = 'user' AND served = 1"
                " AND (:tenant IS NULL OR tenant = :tenant)",
                {"since": since_s, "tenant": tenant},
            )
            .fetchone()
        )
        return int(row[0]), row[1]

    def spent_usd(self, since_s: float, tenant: str | None = None) -> float:
        """Dollars spent on judges, and on answers asked for comparison, since a time."""
        row = (
            self._db.read()
            .execute(
                "SELECT coalesce(sum(cost_usd), 0) FROM outcomes WHERE at_s >= :since"
                " AND (:tenant IS NULL OR tenant = :tenant)",
                {"since": since_s, "tenant": tenant},
            )
            .fetchone()
        )
        return float(row[0])
