"""The recorder: exactly once, in order, never in the way, and never silent about what it could not keep."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from engines.chat import ChatRequest
from engines.engine import Price
from engines.finished import from_json
from gateway.answer import Answer, Kept
from gateway.controls import Controls
from gateway.journey import Journey, Outcome
from gateway.keepers.exact import ExactKeeper
from gateway.keepers.keeper import Keeping
from gateway.metrics import Metrics
from gateway.recorder import Recorder
from router.plan import Attempt
from store.records import ExactAnswer

BODY = (
    b'{"choices":[{"index":0,"message":{"role":"assistant","content":"A."},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":1000000,"completion_tokens":2000000}}'
)


class Shelf:
    """An exact cache that keeps what it is given."""

    def __init__(self, gate: threading.Event | None = None, failure: Exception | None = None) -> None:
        self.kept: dict[bytes, ExactAnswer] = {}
        self.gate = gate
        self.failure = failure

    def put(self, key: bytes, tenant: str, answer: ExactAnswer) -> Future[Any]:
        if self.gate is not None:
            self.gate.wait(60)
        future: Future[Any] = Future()
        if self.failure is not None:
            future.set_exception(self.failure)
        else:
            self.kept[key] = answer
            future.set_result(True)
        return future


def journey(body: bytes = BODY, *, complete: bool = True, controls: Controls | None = None) -> Journey:
    made = Journey("id", 0.0, 0.0, "POST", "/v1/chat/completions", outcome=Outcome.ANSWERED, status=200)
    chat = ChatRequest(b"", {}, "m", [{"role": "user", "content": "Q?"}], stream=False, include_usage=False)
    made.answer = Answer(chat, controls or Controls(), None, Kept(10**6), "/chat/completions", exact_key=b"k")
    made.answer.kept.feed(body)
    made.answer.attempt = Attempt("large")
    made.answer.price = Price(1.0, 10.0)
    made.answer.content_type, made.answer.status, made.answer.complete = "application/json", 200, complete
    return made


def record(shelf: Shelf, *journeys: Journey) -> tuple[list[Journey], Metrics]:
    reported: list[Journey] = []
    metrics = Metrics()
    recorder = Recorder([], metrics, reported.append, at_once=[ExactKeeper(shelf)])
    for made in journeys:
        recorder.take(made)
    assert recorder.close(10)
    return reported, metrics


def test_an_answer_is_kept_priced_and_reported_once() -> None:
    shelf = Shelf()
    made = journey()
    reported, _ = record(shelf, made)
    assert reported == [made] and shelf.kept[b"k"].body == BODY
    assert made.cost_usd == pytest.approx(1.0 + 20.0) and made.answer is None, (
        "nothing holds the body any more"
    )


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (journey(complete=False), "incomplete"),
        (journey(controls=Controls(no_store=True)), "opted_out"),
        (
            journey(b'{"choices":[{"index":0,"message":{"content":"A"},"finish_reason":"length"}]}'),
            "cut_short",
        ),
        (journey(b"not json"), "incomplete"),
    ],
    ids=["incomplete", "opted_out", "cut_short", "not json"],
)
def test_what_is_not_kept_is_counted_with_its_reason(made: Journey, reason: str) -> None:
    shelf = Shelf()
    _, metrics = record(shelf, made)
    assert not shelf.kept
    assert (
        f'understudy_remembered_total{{kind="exact",result="{reason}"}} 1.0' in metrics.exposition().decode()
    )


def test_a_stores_failure_is_counted_and_the_next_answer_is_kept() -> None:
    shelf = Shelf(failure=OSError(28, "disk full"))
    reported, metrics = record(shelf, journey(), journey())
    assert len(reported) == 2
    assert 'understudy_remembered_total{kind="exact",result="failed"} 2.0' in metrics.exposition().decode()


def test_a_journey_without_an_answer_is_reported_at_once() -> None:
    made = journey()
    made.answer = None
    assert record(Shelf(), made)[0] == [made]


def test_not_settled_while_something_is_being_kept() -> None:
    gate = threading.Event()
    recorder = Recorder([ExactKeeper(Shelf(gate))], Metrics(), lambda _: None)
    recorder.take(journey())
    assert not recorder.settled()
    gate.set()
    assert recorder.close(10) and recorder.settled()


def test_chunks_past_the_limit_are_let_go() -> None:
    kept = Kept(10)
    for _ in range(3):
        kept.feed(b"12345")
    assert kept.overflowed and kept.chunks == []


def test_the_body_used_above_is_a_whole_answer() -> None:
    answer = from_json(BODY)
    assert answer is not None and answer.whole


def test_a_small_answer_can_be_repeated_the_moment_it_was_taken() -> None:
    gate, shelf = threading.Event(), Shelf()

    class Busy:
        def keep(self, *_: object) -> Iterator[Keeping]:
            gate.wait(60)
            yield from ()

    recorder = Recorder([Busy()], Metrics(), lambda _: None, at_once=[ExactKeeper(shelf)])
    recorder.take(journey())
    recorder.take(journey())
    assert shelf.kept[b"k"].body == BODY, "though the thread is still busy with the first"
    gate.set()
    assert recorder.close(10)


def test_a_large_answer_is_left_to_the_thread_and_kept_all_the_same() -> None:
    text = b"x" * 40_000
    body = BODY.replace(b"A.", text)
    shelf = Shelf()
    record(shelf, journey(body))
    assert shelf.kept[b"k"].body == body
