"""Sums over requests: they say what the log says, however it is read, grown, trimmed or forgotten."""

from __future__ import annotations

import pytest

from store import Store
from store.decisions.requests import RequestLog
from store.decisions.rollups import LatencyCount, RequestRollups, percentile
from store.sums import DAY_S, HOUR_S, MINUTE_S
from tests.store.contract.conftest import Opening
from tests.store.rows import request_record

NOW = 1_700_000_000.0 // HOUR_S * HOUR_S


def note(log: RequestLog, number: int, **changes: object) -> None:
    log.record(request_record(number, **{"started_at_s": NOW + number, **changes})).result(30)


def caught_up(store: Store, batch: int = 5_000) -> RequestRollups:
    rollups = store.decisions.rollups(["gpt-4o"])
    while rollups.catch_up(batch):
        pass
    return rollups


@pytest.mark.parametrize("batch", [1, 7, 5_000])
def test_sums_are_the_logs_whatever_the_size_of_a_batch(store: Store, batch: int) -> None:
    log = store.decisions.requests
    for i in range(40):
        note(
            log,
            i * 5,
            engine="" if i % 4 == 0 else "small",
            outcome="hit" if i % 4 == 0 else "answered",
            cost_usd=0.0 if i % 4 == 0 else 0.5,
            reference_cost_usd=2.0 if i % 2 else None,
            example_ids=(1,) if i % 3 == 0 else (),
        )
    rollups = caught_up(store, batch)
    for span_s in (MINUTE_S, HOUR_S, DAY_S):
        rows = rollups.requests(span_s, NOW // span_s * span_s)
        assert sum(row.requests for row in rows) == 40
        assert sum(row.requests for row in rows if row.outcome == "hit") == 10
        assert sum(row.requests for row in rows if row.with_examples) == 14
        assert sum(row.cost_usd for row in rows) == pytest.approx(15.0)
        assert sum(row.reference_cost_usd for row in rows) == pytest.approx(40.0)
        assert sum(row.unreckoned for row in rows) == 20
        assert sum(row.unreckoned_usd for row in rows) == pytest.approx(5.0)
        assert {row.start_s % span_s for row in rows} == {0}
    assert len({row.start_s for row in rollups.requests(MINUTE_S, NOW)}) == 4
    (embed, *_) = rollups.stages(HOUR_S, NOW)
    assert (embed.stage, embed.requests, embed.sum_ms) == ("embed", 10, pytest.approx(35.0))


def test_trimming_the_log_keeps_the_sums_and_old_sums_go_in_their_time(store: Store) -> None:
    log = store.decisions.requests
    for i in range(3):
        note(log, i)
    rollups = caught_up(store)
    log.trim(NOW + 100).result(30)
    note(log, 50)
    rollups = caught_up(store)
    assert sum(row.requests for row in rollups.requests(MINUTE_S, NOW)) == 4
    store.decisions.trim_sums(NOW + 5 * HOUR_S).result(30)
    assert rollups.requests(MINUTE_S, NOW) == []
    assert sum(row.requests for row in rollups.requests(HOUR_S, NOW)) == 4
    store.decisions.trim_sums(NOW + 50 * DAY_S).result(30)
    assert rollups.requests(HOUR_S, 0) == []
    assert sum(row.requests for row in rollups.requests(DAY_S, 0)) == 4
    store.decisions.trim_sums(NOW + 500 * DAY_S).result(30)
    assert rollups.requests(DAY_S, 0) == []


def test_names_that_clients_make_up_share_one_row(store: Store) -> None:
    for i in range(5):
        note(store.decisions.requests, i, model=f"made-up-{i}")
    assert [row.model for row in caught_up(store).requests(HOUR_S, NOW)] == [""]


@pytest.mark.slow
def test_a_percentile_is_within_its_buckets_width(store: Store) -> None:
    log = store.decisions.requests
    for i in range(100):
        note(log, i, total_ms=float(i + 1), first_chunk_ms=None)
    rows = caught_up(store).latencies(HOUR_S, NOW)
    assert rows[0] == LatencyCount("small", "total", rows[0].bucket, 1)
    counts = [(row.bucket, row.requests) for row in rows]
    assert percentile(counts, 0.5) == pytest.approx(50, rel=0.1)
    assert percentile(counts, 0.95) == pytest.approx(95, rel=0.1)
    assert percentile([], 0.5) is None


def test_of_two_processes_that_add_the_same_requests_one_does(open_store: Opening) -> None:
    one, other = open_store(), open_store()
    for i in range(10):
        note(one.decisions.requests, i)
    first, second = one.decisions.rollups(), other.decisions.rollups()
    assert first.catch_up() == 10 and second.catch_up() == 0
    assert sum(row.requests for row in second.requests(HOUR_S, NOW)) == 10
