"""Hour by hour, how many requests there were and how long they were under way: what a usual week is learnt from."""

from __future__ import annotations

from dataclasses import dataclass

from store.sqlite.database import Database

HOUR_S = 3600
_CHUNK_S = 24 * HOUR_S


@dataclass(frozen=True, slots=True)
class HourLoad:
    """One hour that had requests."""

    hour: int
    """Hours since the epoch."""
    requests: int
    busy_s: float
    """Sum of the durations of the requests that began in it; over 3600 it is how many were in flight on average."""


def hourly_load(db: Database, *, since_s: float, until_s: float) -> list[HourLoad]:
    """The hours of [since_s, until_s) that had requests, in order; both are rounded down to whole hours.

    Reads a day at a time: a long read would hold up the write-ahead log's checkpoints.
    """
    begin, end = int(since_s // HOUR_S) * HOUR_S, int(until_s // HOUR_S) * HOUR_S
    found: list[HourLoad] = []
    for day in range(begin, end, _CHUNK_S):
        rows = (
            db.read()
            .execute(
                "SELECT CAST(started_at_s AS INTEGER) / 3600, count(*), sum(total_ms) FROM requests"
                " WHERE started_at_s >= ? AND started_at_s < ? GROUP BY 1 ORDER BY 1",
                (day, min(day + _CHUNK_S, end)),
            )
            .fetchall()
        )
        found += [HourLoad(hour, count, total_ms / 1000) for hour, count, total_ms in rows]
    return found


def first_request_s(db: Database) -> float | None:
    """When the oldest request on record began (seconds since the epoch); None without any."""
    row = db.read().execute("SELECT min(started_at_s) FROM requests").fetchone()
    return None if row[0] is None else float(row[0])
