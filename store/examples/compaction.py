"""Drops what only old followers of the log could still want: rows of removals, and ids of merged requests.

Who has not followed past what was dropped is told so (`ExampleBank.dropped`) and reads the tenant anew.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass

from store.sqlite.database import Database

_Job = Callable[[sqlite3.Connection], int]
_DAY_S = 86_400.0
_BATCH = 2000


@dataclass(frozen=True, slots=True)
class Compacted:
    """How many rows were dropped."""

    removals: int
    merged_requests: int


def compact(
    db: Database,
    *,
    keep_removals_s: float = 7 * _DAY_S,
    keep_requests_s: float = 30 * _DAY_S,
    batch: int = _BATCH,
) -> Compacted:
    """Drop removals and merged requests' ids that are older than this. Blocks; a transaction per `batch` rows.

    A snapshot older than the tenant's dropped removals is of no use any more and is rebuilt from the database when it
    is loaded, so `keep_removals_s` is how long a stopped gateway starts quickly. A request whose id was dropped
    and comes again is merged again, which counts it twice and stores nothing twice. Raises what writing raises.
    """
    now_s = time.time()
    return Compacted(
        _until_done(db, lambda c: _drop_removals(c, now_s - keep_removals_s, batch)),
        _until_done(db, lambda c: _drop_requests(c, now_s - keep_requests_s, batch)),
    )


def _until_done(db: Database, job: _Job) -> int:
    total = 0
    while dropped := db.write(job).result():
        total += dropped
    return total


def _drop_removals(connection: sqlite3.Connection, before_s: float, batch: int) -> int:
    rows = connection.execute(
        "SELECT seq, tenant FROM removed_examples WHERE removed_at_s < ? ORDER BY seq LIMIT ?",
        (before_s, batch),
    ).fetchall()
    up_to: dict[str, int] = {tenant: seq for seq, tenant in rows}
    connection.executemany(
        "INSERT INTO dropped_removals (tenant, up_to_seq) VALUES (?, ?)"
        " ON CONFLICT (tenant) DO UPDATE SET up_to_seq = max(up_to_seq, excluded.up_to_seq)",
        up_to.items(),
    )
    connection.executemany("DELETE FROM removed_examples WHERE seq = ?", [(seq,) for seq, _ in rows])
    return len(rows)


def _drop_requests(connection: sqlite3.Connection, before_s: float, batch: int) -> int:
    return connection.execute(
        "DELETE FROM merged_requests WHERE (tenant, request_id) IN"
        " (SELECT tenant, request_id FROM merged_requests WHERE merged_at_s < ? LIMIT ?)",
        (before_s, batch),
    ).rowcount
