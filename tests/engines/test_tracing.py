from __future__ import annotations

from collections.abc import Iterator

import pytest
from multidict import CIMultiDict

from engines.engine import EngineRequest
from engines.tracing import Trace, call_to, enter


@pytest.fixture(autouse=True)
def left() -> Iterator[None]:
    yield
    enter(None)


WHERE = {"engine": "large", "replica": "", "host": "127.0.0.1", "port": 8000}


def request(**headers: str) -> EngineRequest:
    return EngineRequest("POST", "/chat/completions", CIMultiDict(headers), b"")


def test_nothing_is_noted_where_there_is_no_trace() -> None:
    asked = request()
    assert call_to(asked, **WHERE) == (asked, None)


def test_each_request_has_a_span_of_its_own_and_the_clients_headers_stay() -> None:
    trace, asked = Trace("a" * 32, "b" * 16, "01"), request(tracestate="vendor=1", traceparent="old")
    enter(trace)
    first, one = call_to(asked, **WHERE)
    second, two = call_to(asked, **WHERE)
    assert one is not None and two is not None and trace.calls == [one, two]
    assert first.headers["traceparent"] == f"00-{'a' * 32}-{one.span_id}-01"
    assert second.headers["traceparent"] != first.headers["traceparent"]
    assert first.headers["tracestate"] == "vendor=1" and asked.headers["traceparent"] == "old"
    enter(None)
    assert call_to(asked, **WHERE)[1] is None, "outside"


def test_the_state_of_a_trace_that_was_not_understood_goes_no_further() -> None:
    enter(Trace("a" * 32, "", "01"))
    sent, _ = call_to(request(tracestate="vendor=1"), **WHERE)
    assert "tracestate" not in sent.headers


def test_what_is_asked_in_the_background_is_no_part_of_the_request() -> None:
    trace = Trace("a" * 32, "", "01")
    enter(trace)
    background = EngineRequest("POST", "/chat/completions", CIMultiDict(), b"", background=True)
    assert call_to(background, **WHERE)[1] is None
    trace.ended = True
    assert call_to(request(), **WHERE)[1] is None


def test_only_so_many_are_noted_and_all_carry_the_trace() -> None:
    trace = Trace("a" * 32, "", "01")
    enter(trace)
    sent = [call_to(request(), **WHERE)[0] for _ in range(300)]
    assert len(trace.calls) == 200 and all("traceparent" in each.headers for each in sent)
