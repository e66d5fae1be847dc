"""What trends are read from, by bars: counts, money, the gateway's own costs, percentiles, single answers."""

from __future__ import annotations

import pytest

from store import Store
from store.decisions.usage import Amounts, Used
from store.jobs.operator_asks import OperatorAsk
from store.sums import DAY_S, HOUR_S
from tests.store.rows import request_record

NOW = 1_700_000_000.0 // DAY_S * DAY_S


def fill(store: Store) -> None:
    """Two requests in the first hour, one in the second; judging in both, one question by hand in the second."""
    for number, (hour, tenant, key, model) in enumerate(
        [(0, "a1", "k1", "gpt-4o"), (0, "b2", "k2", "other"), (1, "a1", "k1", "gpt-4o")]
    ):
        record = request_record(
            number,
            started_at_s=NOW + hour * HOUR_S + number,
            tenant=tenant,
            key_id=key,
            model=model,
            cost_usd=0.5,
            reference_cost_usd=2.0,
            outcome="answered",
            total_ms=100.0 * (number + 1),
            first_chunk_ms=10.0 if number else None,
        )
        store.decisions.requests.record(record).result(30)
    for hour in (0, 1):
        store.decisions.usage.book(
            Used(NOW + hour * HOUR_S, "a1", Amounts(requests=1, cost_usd=0.25), "judge")
        ).result(30)
    asked = OperatorAsk(NOW + HOUR_S + 5.5, "ann", "b2", "req-1", "large", False, 0.125, 1, 1, 0.5)
    store.jobs.operator_asks.note(asked).result(30)
    rollups = store.decisions.rollups(["gpt-4o", "other"])
    while rollups.catch_up():
        pass


def test_bars_hold_what_began_in_them_for_all_or_one(store: Store) -> None:
    fill(store)
    usage, day = store.decisions.usage, (NOW, NOW + DAY_S)
    first, second = int(NOW), int(NOW) + HOUR_S
    spent = {
        start: (one.requests, one.cost_usd, one.reference_usd)
        for start, one in usage.over_time(HOUR_S, *day).items()
    }
    assert spent == {first: (2, 1.0, 4.0), second: (1, 0.5, 2.0)}
    assert {start: one.requests for start, one in usage.over_time(DAY_S, *day).items()} == {first: 3}
    assert usage.over_time(HOUR_S, *day, tenant="a1", key_id="k1")[first].requests == 1
    assert list(usage.over_time(HOUR_S, *day, model="other")) == [first]
    assert list(usage.over_time(HOUR_S, NOW, NOW + HOUR_S)) == [first]
    assert usage.overheads_over_time(HOUR_S, *day) == pytest.approx({first: 0.25, second: 0.375})
    assert usage.overheads_over_time(HOUR_S, *day, tenant="b2") == pytest.approx({second: 0.125})
    assert usage.overheads_over_time(DAY_S, *day) == pytest.approx({first: 0.625})
    rollups = store.decisions.rollups()
    rows = rollups.requests(HOUR_S, NOW, until_s=NOW + HOUR_S, model="gpt-4o")
    assert [(row.start_s, row.requests) for row in rows] == [(first, 1)]
    times = rollups.latencies_over_time(HOUR_S, *day)
    assert {key: sum(count for _, count in counts) for key, counts in times.items() if key[1] != "token"} == {
        (first, "total"): 2,
        (first, "first_chunk"): 1,
        (second, "total"): 1,
        (second, "first_chunk"): 1,
    }
    assert list(rollups.latencies_over_time(HOUR_S, NOW + 2 * HOUR_S, NOW + DAY_S)) == []


def test_single_answers_are_the_latest_of_those_that_are_wanted(store: Store) -> None:
    fill(store)
    log = store.decisions.requests
    assert [one.total_ms for one in log.timings(NOW, NOW + DAY_S)] == [300.0, 200.0, 100.0]
    assert [one.first_chunk_ms for one in log.timings(NOW, NOW + DAY_S, tenant="a1")] == [10.0, None]
    assert [one.at_s for one in log.timings(NOW, NOW + HOUR_S, tenant="b2", key_id="k2")] == [NOW + 1]
    assert [one.total_ms for one in log.timings(NOW, NOW + DAY_S, model="gpt-4o", limit=1)] == [300.0]
    assert log.timings(NOW, NOW + DAY_S, model="other", looked=1) == []
    assert log.begun(NOW + 1) == 2 and log.begun(NOW, "b2") == 1
