"""Requests are summed hour by hour, whole hours only, across the boundaries of what is read at once."""

from __future__ import annotations

from store import Store
from store.decisions.requests import HOUR_S, HourLoad
from tests.store.rows import request_record

T = 500_000 * HOUR_S


def test_an_empty_log_has_no_hours_and_no_first_request(store: Store) -> None:
    log = store.decisions.requests
    assert log.hourly_load(since_s=0, until_s=1e6) == []
    assert log.first_request_s() is None


def test_hours_are_summed_and_the_unfinished_one_is_left_out(store: Store) -> None:
    log = store.decisions.requests
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
