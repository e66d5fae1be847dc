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


def test_a_request_is_found_by_the_id_of_its_answer_and_not_by_that_of_a_repeat(log: RequestLog) -> None:
    for number, outcome in enumerate(("answered", "aborted", "hit", "failed"), start=1):
        log.record(request_record(number, outcome=outcome, completion_id="chatcmpl-1")).result(30)
    log.record(request_record(5, tenant="b2", completion_id="chatcmpl-1")).result(30)
    log.record(request_record(6)).result(30)
    found = log.by_completion("a1", "chatcmpl-1")
    assert found is not None and found.id == "req-2"
    assert log.by_completion("a1", "chatcmpl-2") is None and log.by_completion("a1", "") is None


def test_nobody_reads_another_tenant_s_request(log: RequestLog) -> None:
    log.record(request_record(1)).result(30)
    log.record(request_record(2, tenant="b2")).result(30)
    assert log.get("req-1", tenant="b2") is None
    assert [record.id for record in log.recent(10, tenant="b2")] == ["req-2"]


def test_a_request_is_never_counted_twice(log: RequestLog) -> None:
    for _ in range(2):
        log.record(request_record(1)).result(30)
    assert log.recent() == [request_record(1)]


def test_the_latest_come_first(log: RequestLog) -> None:
    for number in (2, 1, 4, 3):
        log.record(request_record(number)).result(30)
    assert [record.id for record in log.recent(3)] == ["req-4", "req-3", "req-2"]


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
