from __future__ import annotations

import pytest

from store import Store
from store.decisions.requests import RequestLog
from tests.store.rows import request_record


@pytest.fixture
def log(store: Store) -> RequestLog:
    return store.decisions.requests


def test_a_request_comes_back_as_it_was_recorded(log: RequestLog) -> None:
    for record in (
        request_record(1),
        request_record(2, first_chunk_ms=None, example_ids=(), usage_estimated=True),
    ):
        log.record(record).result(30)
        assert log.get(record.id) == record
    assert log.get("req-3") is None


def test_nobody_reads_another_tenant_s_request(log: RequestLog) -> None:
    log.record(request_record(1)).result(30)
    log.record(request_record(2, tenant="b2")).result(30)
    assert log.get("req-1", tenant="b2") is None
    assert [record.id for record in log.recent(10, tenant="b2")] == ["req-2"]
    assert log.totals(0.0, tenant="b2").requests == 1


def test_a_request_is_never_counted_twice(log: RequestLog) -> None:
    for _ in range(2):
        log.record(request_record(1)).result(30)
    assert log.totals().requests == 1


def test_the_latest_come_first(log: RequestLog) -> None:
    for number in (2, 1, 4, 3):
        log.record(request_record(number)).result(30)
    assert [record.id for record in log.recent(3)] == ["req-4", "req-3", "req-2"]


def test_totals_add_up(log: RequestLog) -> None:
    log.record(request_record(1, engine="small", total_ms=10.0)).result(30)
    log.record(request_record(2, engine="large", example_ids=(), total_ms=30.0)).result(30)
    log.record(
        request_record(3, engine="", outcome="hit", example_ids=(), cost_usd=0.0, total_ms=2.0)
    ).result(30)
    log.record(request_record(4, engine="small", outcome="upstream_error", total_ms=6.0)).result(30)

    totals = log.totals(1000.0)
    assert (totals.requests, totals.exact_hits, totals.offloaded) == (4, 1, 1)
    assert totals.by_engine == {"small": 2, "large": 1}
    assert totals.by_outcome == {"answered": 2, "hit": 1, "upstream_error": 1}
    assert totals.cost_usd == pytest.approx(0.75)
    assert (totals.prompt_tokens, totals.completion_tokens) == (400, 200)
    assert totals.mean_total_ms == pytest.approx(12.0)
    assert log.totals(1003.0).requests == 2
    assert log.totals(9999.0).mean_total_ms == 0.0


def test_trimming_takes_the_old_and_leaves_the_rest(log: RequestLog) -> None:
    for number in range(10):
        log.record(request_record(number)).result(30)
    assert log.trim(1006.0, limit=4).result(30) == 4
    assert log.trim(1006.0, limit=4).result(30) == 2
    assert [record.id for record in log.recent(10)] == ["req-9", "req-8", "req-7", "req-6"]


def test_forgetting_a_tenant_leaves_the_others(log: RequestLog) -> None:
    log.record(request_record(1)).result(30)
    log.record(request_record(2, tenant="b2")).result(30)
    assert log.forget_tenant("a1").result(30) == 1
    assert [record.tenant for record in log.recent(10)] == ["b2"]
