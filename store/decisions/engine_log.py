"""Which examples the log of requests says an engine was sent. No text."""

from __future__ import annotations

import json

from store.sqlite.database import Database


def uses_of_examples(
    db: Database, engine: str, *, since_s: float, limit: int
) -> list[tuple[str, float, tuple[int, ...]]]:
    """(tenant, when it began, ids of the examples in the order sent) of the latest requests that carried any."""
    rows = db.read().execute(
        "SELECT tenant, started_at_s, example_ids FROM requests WHERE started_at_s >= ? AND engine = ?"
        " AND example_count > 0 ORDER BY started_at_s DESC LIMIT ?",
        (since_s, engine, limit),
    )
    return [(tenant, at_s, tuple(json.loads(ids))) for tenant, at_s, ids in rows.fetchall()]
