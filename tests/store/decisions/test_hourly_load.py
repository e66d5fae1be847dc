"""Requests are summed hour by hour, whole hours only, across the boundaries of what is read at once."""

from __future__ import annotations

from store.sqlite.database import Database


def test_reading_it_uses_the_index_of_time(db: Database) -> None:
    plan = db.read().execute(
        "EXPLAIN QUERY PLAN SELECT count(*), sum(total_ms) FROM requests WHERE started_at_s >= 1 AND started_at_s < 2"
    )
    assert "requests_by_time" in str(plan.fetchall())
