"""The recorder: exactly once, in order, never in the way, and never silent about what it could not keep."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from structlog.testing import capture_logs

from engines.answers.answer import Body
from engines.engine import Price
from gateway.forward import ChunkBuffer
from gateway.keepers.exact import ExactKeeper
from gateway.keepers.keeper import Kept
from gateway.metrics import Metrics
from gateway.recorder import Recorder
from router.asked import Controls
from router.finished import Finished, Outcome
from router.plan import Attempt
from store.answers.exact_cache import Put
from store.errors import StoreFailed
from store.records import ExactAnswer
from tests.finished import finished

BODY = (
    b'{"choices":[{"index":0,"message":{"role":"assistant","content":"A."},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":1000000,"completion_tokens":2000000}}'
)


class Shelf:
    """An exact cache that keeps what it is given."""

    def __init__(self, gate: threading.Event | None = None, failure: Exception | None = None) -> None:
        self.kept: dict[bytes, ExactAnswer] = {}
        self.expected: dict[bytes, Callable[[], ExactAnswer | None]] = {}
        self.gate = gate
        self.failure = failure

    def expect(self, key: bytes, answer: Callable[[], ExactAnswer | None], examples: object) -> None:
        self.expected[key] = answer

    def expect_no_more(self, key: bytes) -> None:
        self.expected.pop(key, None)

    def put_all(self, puts: Sequence[Put]) -> Future[Any]:
        if self.gate is not None:
            self.gate.wait(60)
        future: Future[Any] = Future()
        if self.failure is not None:
            future.set_exception(self.failure)
        else:
            self.kept |= {put.key: put.answer for put in puts}
            future.set_result(None)
        return future


def answered(body: bytes = BODY, **changes: Any) -> Finished:
    wanted = {"exact_key": b"k", "attempt": Attempt("large"), "price": Price(1.0, 10.0)}
    return finished(body=body, read=False, **(wanted | changes))


def record(shelf: Shelf, *requests: Finished) -> tuple[list[Finished], Metrics]:
    reported: list[Finished] = []
    metrics = Metrics()
    recorder = Recorder([ExactKeeper(shelf)], metrics, reported.append)
    for made in requests:
        recorder.take(made)
    assert recorder.close(10)
    return reported, metrics


def test_an_answer_is_kept_priced_and_reported_once() -> None:
    shelf = Shelf()
    made = answered()
    (reported,), _ = record(shelf, made)
    assert reported is made and shelf.kept[b"k"].body == BODY
    assert reported.cost_usd == pytest.approx(1.0 + 20.0)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (answered(outcome=Outcome.ABORTED), "incomplete"),
        (answered(controls=Controls(no_store=True)), "opted_out"),
        (
            answered(b'{"choices":[{"index":0,"message":{"content":"A"},"finish_reason":"length"}]}'),
            "cut_short",
        ),
        (answered(b"not json"), "incomplete"),
    ],
    ids=["incomplete", "opted_out", "cut_short", "not json"],
)
def test_what_is_not_kept_is_counted_with_its_reason(made: Finished, reason: str) -> None:
    shelf = Shelf()
    _, metrics = record(shelf, made)
    assert not shelf.kept
    assert (
        f'understudy_remembered_total{{kind="exact",result="{reason}"}} 1.0' in metrics.exposition().decode()
    )


def test_a_stores_failure_is_counted_and_the_next_answer_is_kept() -> None:
    shelf = Shelf(failure=OSError(28, "disk full"))
    reported, metrics = record(shelf, answered(), answered())
    assert len(reported) == 2
    assert 'understudy_remembered_total{kind="exact",result="failed"} 2.0' in metrics.exposition().decode()


def test_what_fails_for_every_request_is_logged_now_and_then_with_how_often() -> None:
    recorder = Recorder([], Metrics(), lambda _: None)
    failed: Future[None] = Future()
    failed.set_exception(OSError(28, "disk full"))
    with capture_logs() as logs:
        for kind in ("text", "text", "example", "text"):
            recorder.follow(kind, failed)
        recorder._failing["text"].silent_until_s = 0.0
        recorder.follow("text", failed)
    recorder.close(10)
    assert [(line["kind"], line["count"]) for line in logs] == [("text", 1), ("example", 1), ("text", 3)]


def test_not_settled_while_something_is_being_kept() -> None:
    gate = threading.Event()
    recorder = Recorder([ExactKeeper(Shelf(gate))], Metrics(), lambda _: None)
    recorder.take(answered())
    assert not recorder.settled()
    gate.set()
    assert recorder.close(10) and recorder.settled()


def test_it_tells_to_when_what_it_took_is_written() -> None:
    writing: Future[Any] = Future()

    class Late:
        def keep(self, *_: object) -> Iterator[Kept]:
            yield "request", writing

    def told(after_s: float) -> bool:
        for _ in range(2000):
            if recorder.recorded_to_s() >= after_s:
                return True
            time.sleep(0.005)
        return False

    recorder = Recorder([Late()], Metrics(), lambda _: None)
    assert told(time.monotonic()), "nothing was taken"
    recorder.take(answered())
    taken_s = time.monotonic()
    while not recorder._unfinished:
        time.sleep(0.005)
    for _ in range(20):
        assert recorder.recorded_to_s() < taken_s
        time.sleep(0.005)
    writing.set_exception(OSError(28, "disk full"))
    assert told(taken_s), "it never will be"
    assert recorder.close(10)
    now_s = time.monotonic()
    assert recorder.recorded_to_s() >= now_s, "there is nothing to come"


def test_after_the_database_failed_nobody_says_that_an_answer_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Full:
        def keep(self, *_: object) -> Iterator[Kept]:
            failed: Future[Any] = Future()
            failed.set_exception(StoreFailed("disk full"))
            yield "request", failed

    recorder = Recorder([Full()], Metrics(), lambda _: None)
    began_s = time.monotonic()
    recorder.take(answered())
    while not recorder.settled():
        time.sleep(0.005)
    for _ in range(20):
        assert recorder.recorded_to_s() < began_s
        time.sleep(0.005)
    monkeypatch.setattr("gateway.recorder._LOST_S", 0.0)
    for _ in range(2000):
        if recorder.recorded_to_s() >= began_s:
            break
        time.sleep(0.005)
    assert recorder.recorded_to_s() >= began_s
    assert recorder.close(10)


def test_what_waits_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.recorder._QUEUED_BYTES", len(BODY) // 2)
    gate, metrics, reported = threading.Event(), Metrics(), list[Finished]()

    class Waits:
        def keep(self, *_: object) -> Iterator[Kept]:
            gate.wait(60)
            yield "request", "stored"

    recorder = Recorder([Waits()], metrics, reported.append)
    for _ in range(5):
        recorder.take(answered(exact_key=None))
    assert len(reported) == 4, "all but the first are told, and not remembered"
    gate.set()
    assert recorder.close(10) and len(reported) == 5
    recorder = Recorder([Waits()], metrics, reported.append)
    recorder.take(answered())
    assert recorder.close(10) and len(reported) == 6 and recorder._untold_bytes == 0


def test_chunks_past_the_limit_are_let_go() -> None:
    kept = ChunkBuffer(10)
    for _ in range(3):
        kept.feed(b"12345")
    assert kept.size_bytes == 15 and kept.chunks == []


def test_a_small_answer_can_be_repeated_the_moment_it_was_taken() -> None:
    gate, shelf = threading.Event(), Shelf()

    class Busy:
        def keep(self, *_: object) -> Iterator[Kept]:
            gate.wait(60)
            yield from ()

    exact = ExactKeeper(shelf)
    recorder = Recorder([Busy(), exact], Metrics(), lambda _: None, expecting=exact)
    recorder.take(answered())
    recorder.take(answered())
    expected = shelf.expected[b"k"]()
    assert expected is not None and expected.body == BODY, "though the thread is still busy with the first"
    gate.set()
    assert recorder.close(10) and not shelf.expected and shelf.kept[b"k"].body == BODY


def test_a_large_answer_is_left_to_the_thread_and_kept_all_the_same() -> None:
    text = b"x" * 40_000
    body = BODY.replace(b"A.", text)
    shelf = Shelf()
    record(shelf, answered(body))
    assert shelf.kept[b"k"].body == body


def test_an_answer_too_large_to_be_kept_is_billed_by_what_its_end_says() -> None:
    kept = ChunkBuffer(1000)
    kept.begin({"Content-Type": "text/event-stream"})
    event = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * 500 + b'"}}]}\n\n'
    for _ in range(500):
        kept.feed(event)
    kept.feed(
        b'data: {"choices":[],"usage":{"prompt_tokens":1000000,"completion_tokens":2000000}}\n\ndata: [DONE]\n\n'
    )
    assert kept.chunks == []
    large = Body((), kept.size_bytes, "text/event-stream", passed=kept.passed)
    made = finished(body=large, read=False, price=Price(1.0, 10.0), asked_at=1.0, attempt=Attempt("large"))
    (reported,), _ = record(Shelf(), made)
    assert reported.cost_usd == pytest.approx(21.0)


@pytest.mark.parametrize(
    ("changes", "cost_usd"),
    [
        ({"outcome": Outcome.ANSWERED}, None),
        ({"outcome": Outcome.ABORTED}, None),
        ({"outcome": Outcome.FAILED, "head_at": 2.0}, None),
        ({"outcome": Outcome.FAILED}, 0.0),
        ({"outcome": Outcome.ABORTED, "asked_at": 0.0}, 0.0),
        ({"outcome": Outcome.HIT, "hit": b""}, 0.0),
        ({"outcome": Outcome.UPSTREAM_ERROR, "status": 500}, 0.0),
    ],
)
def test_what_nobody_can_say_is_not_free(changes: dict[str, Any], cost_usd: float | None) -> None:
    made = finished(body=Body(), read=False, price=Price(1.0, 10.0), **({"asked_at": 1.0} | changes))
    (reported,), _ = record(Shelf(), made)
    assert reported.cost_usd == cost_usd
