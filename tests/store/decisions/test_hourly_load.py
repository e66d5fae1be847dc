"""Requests are summed hour by hour, whole hours only, across the boundaries of what is read at once."""

from __future__ import annotations

from store.decisions.requests import HOUR_S, HourLoad, RequestLog
from store.sqlite.database import Database
from tests.store.rows import request_record

T = 500_000 * HOUR_S


def test_an_empty_log_has_no_hours_and_no_first_request(db: Database) -> None:
    log = RequestLog(db)
    assert log.hourly_load(since_s=0, until_s=1e6) == []
    assert log.first_request_s() is None


def test_hours_are_summed_and_the_unfinished_one_is_left_out(db: Database) -> None:
    log = RequestLog(db)
    begun = [T, T + 3599.9, T + 3600, T + 30 * HOUR_S + 5, T + 40 * HOUR_S + 1]
    for number, at_s in enumerate(begun):
        log.record(request_record(number, started_at_s=at_s, total_ms=1500.0)).result(30)

    found = log.hourly_load(since_s=T, until_s=T + 40 * HOUR_S + 1800)

    assert found == [
        HourLoad(500_000, 2, 3.0),
        HourLoad(500_001, 1, 1.5),
        HourLoad(500_030, 1, 1.5),
    ]
    assert log.first_request_s() == T
    assert log.hourly_load(since_s=T + HOUR_S, until_s=T + 2 * HOUR_S) == [HourLoad(500_001, 1, 1.5)]


def test_reading_it_uses_the_index_of_time(db: Database) -> None:
    plan = db.read().execute(
        "EXPLAIN QUERY PLAN SELECT count(*), sum(total_ms) FROM requests WHERE started_at_s >= 1 AND started_at_s < 2"
    )
    assert "requests_by_time" in str(plan.fetchall())
