"""Sums over requests: they say what the log says, however it is read, grown, trimmed or forgotten."""

from __future__ import annotations

import pytest

from store.database import Database
from store.decisions.requests import RequestLog
from store.decisions.rollups import RequestRollups
from store.sqlite.database import Database as Sqlite
from store.sums import DELETED, HOUR_S
from tests.store.rows import request_record

NOW = 1_700_000_000.0 // HOUR_S * HOUR_S


def note(log: RequestLog, number: int, **changes: object) -> None:
    log.record(request_record(number, **{"started_at_s": NOW + number, **changes})).result(30)


def caught_up(db: Database, batch: int = 5_000) -> RequestRollups:
    rollups = RequestRollups(db, ["gpt-4o"])
    while rollups.catch_up(batch):
        pass
    return rollups


def test_a_deletion_changes_no_total_and_what_comes_later_is_counted(either: Database) -> None:
    log = RequestLog(either)
    for i in range(6):
        note(log, i, tenant="kept" if i < 2 else "gone", key_id="k1")
    rollups = caught_up(either)
    # In no sum yet when the tenant is deleted.
    note(log, 6, tenant="gone", key_id="k1")
    assert log.forget_tenant("gone").result(30) == 5
    before = rollups.latencies(HOUR_S, NOW)
    assert log.forget_tenant("gone").result(30) == 0
    assert rollups.latencies(HOUR_S, NOW) == before, "nothing is added twice"
    for i in range(10, 13):
        # SQLite gives the ids of the deleted rows to these.
        note(log, i, tenant="kept", key_id="k2")
    rollups = caught_up(either)
    assert sorted(rollups.by_tenant(NOW)) == [
        (DELETED, 5, pytest.approx(1.25), 750),
        ("kept", 5, pytest.approx(1.25), 750),
    ]
    assert sum(row.requests for row in rollups.requests(HOUR_S, NOW)) == 10


def test_no_sum_is_read_by_a_scan_of_the_log(db: Sqlite) -> None:
    rollups = caught_up(db)
    asked: list[str] = []
    db.read().set_trace_callback(asked.append)
    rollups.requests(HOUR_S, NOW)
    rollups.stages(HOUR_S, NOW)
    rollups.latencies(HOUR_S, NOW)
    rollups.by_tenant(NOW)
    db.read().set_trace_callback(None)
    assert len(asked) == 4
    for statement in asked:
        plan = " ".join(row[3] for row in db.read().execute("EXPLAIN QUERY PLAN " + statement))
        assert "SCAN" not in plan and " requests" not in plan, plan


def test_what_was_read_before_a_deletion_is_not_added_after_it(either: Database) -> None:
    log = RequestLog(either)
    for i in range(4):
        note(log, i, tenant="gone")
    rollups = RequestRollups(either)
    write = either.write

    def deleted_meanwhile(job, **more):  # type: ignore[no-untyped-def]
        either.write = write  # type: ignore[method-assign]
        log.forget_tenant("gone").result(30)
        return write(job, **more)

    either.write = deleted_meanwhile  # type: ignore[method-assign]
    assert rollups.catch_up() == 0
    assert sum(row.requests for row in rollups.requests(HOUR_S, 0)) == 4, "counted once, by the deletion"
    assert [tenant for tenant, *_ in rollups.by_tenant(0)] == [DELETED]
