"""The pipeline without a server: a second `send`, and whatever happens, one finished request."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from multidict import CIMultiDict

from engines.chat_json import read_chat_request
from engines.codecs.chat import CHAT
from engines.engine import EngineInfo, EngineLoad, EngineReply, EngineRequest, Price
from engines.errors import ConnectFailed, EngineError, RequestError, StreamBroken
from gateway.pipeline import Pipeline
from gateway.send import ClientGone
from gateway.served_model import ServedModel
from gateway.stages.features import Features
from router.asked import Arrival, Asked, Controls
from router.finished import Finished, Outcome
from router.plan import Ask, Plan
from router.policies.fixed import Fixed
from store.records import ExactAnswer
from tests.flow.line import completion, events
from tests.gateway.collecting import Collected

JSON = {"Content-Type": "application/json"}
SSE = {"Content-Type": "text/event-stream"}
DONE = b"data: [DONE]\n\n"


class Scripted:
    """An engine that says what it is told to; `left`: how many of its answers were left."""

    def __init__(
        self, name: str, *said: bytes | EngineError | asyncio.Event, headers: Mapping[str, str] = SSE
    ) -> None:
        self.info = EngineInfo(name, price=Price(1.0, 2.0))
        self.asked: list[EngineRequest] = []
        self.left = 0
        self._said = said
        self._headers = headers

    @asynccontextmanager
    async def stream(self, request: EngineRequest) -> AsyncIterator[EngineReply]:
        self.asked.append(request)
        if self._said and isinstance(self._said[0], ConnectFailed):
            raise self._said[0]
        try:
            yield EngineReply(200, CIMultiDict(self._headers), self._chunks(), self.info.name)
        finally:
            self.left += 1

    async def _chunks(self) -> AsyncIterator[bytes]:
        for each in self._said:
            if isinstance(each, EngineError):
                raise each
            if isinstance(each, asyncio.Event):
                await each.wait()
            else:
                yield each

    def load(self) -> EngineLoad:
        return EngineLoad()

    async def health(self) -> None:
        return None

    async def aclose(self) -> None:
        pass


class Exact:
    """An exact cache with one answer for everything."""

    def __init__(self, answer: ExactAnswer) -> None:
        self.answer = answer

    async def find(self, key: bytes, now_s: float) -> ExactAnswer | None:
        return self.answer


def asked(controls: Controls | None = None, **fields: Any) -> Asked:
    made = {"model": "m", "messages": [{"role": "user", "content": "Q?"}]} | fields
    arrival = Arrival("id1", time.perf_counter(), time.time())
    chat = read_chat_request(json.dumps(made).encode(), made)
    return Asked(arrival, "/chat/completions", CIMultiDict(JSON), chat, controls or Controls())


def pipeline(ended: list[Finished], *engines: Scripted, **more: Any) -> Pipeline:
    """One that asks the first engine first, and the last as the reference."""
    names = tuple(engine.info.name for engine in engines)
    model = ServedModel("m", names, Fixed(names))
    named = {engine.info.name: engine for engine in engines}
    return Pipeline(named, {"m": model}, stages=Features(named, **more).stages, ended=ended.append)


def streamed(text: str) -> list[bytes]:
    return [*events(text, usage=False), DONE]


async def test_a_plain_answer_is_collected_whole() -> None:
    body = json.dumps(completion("Forty-two.")).encode()
    engine = Scripted("large", body, headers={**JSON, "Content-Length": str(len(body))})
    ended: list[Finished] = []
    send = Collected()
    finished = await pipeline(ended, engine).answer(asked(), send)
    assert (send.status, send.body, send.ended) == (200, body, True)
    assert send.headers["x-understudy-engine"] == "large"
    assert ended == [finished] and finished.complete and finished.from_reference and engine.left == 1
    assert CHAT.assembled(finished.body) is not None and finished.body.size_bytes == len(body)


async def test_a_stream_is_collected_chunk_by_chunk() -> None:
    said = streamed("Forty two")
    ended: list[Finished] = []
    send = Collected()
    finished = await pipeline(ended, Scripted("large", *said)).answer(asked(stream=True), send)
    assert send.chunks == said and send.ended
    assert list(finished.body.chunks) == said and finished.first_chunk_s is not None
    assert ended == [finished] and finished.outcome is Outcome.ANSWERED


@pytest.mark.parametrize("stream", [False, True])
async def test_a_remembered_answer_asks_no_engine(stream: bool) -> None:
    body = json.dumps(completion("Forty-two.")).encode()
    exact = Exact(ExactAnswer(body, "application/json", "large", time.time(), ttl_s=60.0))
    engine = Scripted("large")
    ended: list[Finished] = []
    send = Collected()
    finished = await pipeline(ended, engine, exact=exact).answer(asked(stream=stream), send)
    assert not engine.asked and send.status == 200
    assert send.body.endswith(DONE) if stream else send.body == body
    assert send.headers["Cache-Status"].startswith("understudy; hit")
    assert ended == [finished] and (finished.outcome, finished.hit) == (Outcome.HIT, body)
    assert finished.exact_key is not None and (finished.policy, finished.engine) == ("exact", "")


async def test_a_stage_that_breaks_is_passed_by() -> None:
    class Broken(Fixed):
        async def find(self, key: bytes, now_s: float) -> ExactAnswer | None:
            raise OSError("no disk")

        async def decide(self, ask: Ask) -> Plan:
            raise ZeroDivisionError

    ended: list[Finished] = []
    send, broken = Collected(), Broken(("small",))
    named = {engine.info.name: engine for engine in (Scripted("small"), Scripted("large", *streamed("Yes")))}
    stages = Features(named, exact=cast(Any, broken)).stages
    models = {"m": ServedModel("m", ("small", "large"), broken)}
    finished = await Pipeline(named, models, stages=stages, ended=ended.append).answer(
        asked(stream=True), send
    )
    assert finished.bypassed == ["exact:OSError", "decide:ZeroDivisionError"] and send.ended
    assert (finished.engine, finished.reason) == ("large", "policy_failed")


async def test_the_next_engine_answers_where_one_fails() -> None:
    dead = Scripted("small", ConnectFailed("Nobody there.", engine="small"))
    ended: list[Finished] = []
    send = Collected()
    finished = await pipeline(ended, dead, Scripted("large", *streamed("Yes"))).answer(
        asked(stream=True), send
    )
    assert str(finished.failed_over) == send.headers["x-understudy-failed-over"] == "small; connect"
    assert finished.by_stand_in and finished.reason.endswith("+failover")
    assert (finished.engine, finished.bypassed) == ("large", ["engine:small"]) and send.ended


async def test_when_no_engine_answers_the_error_is_raised_and_the_end_is_reported() -> None:
    ended: list[Finished] = []
    send = Collected()
    with pytest.raises(ConnectFailed):
        await pipeline(ended, Scripted("large", ConnectFailed("Dead.", engine="large"))).answer(asked(), send)
    (finished,) = ended
    assert (finished.outcome, finished.status, finished.engine) == (Outcome.FAILED, 502, "large")
    assert finished.error == "Dead." and finished.attempt is None and send.status == 0


async def test_a_stream_that_breaks_ends_in_an_error_and_is_no_answer() -> None:
    said = streamed("Forty two")[:2]
    engine = Scripted("large", *said, StreamBroken("Cut.", engine="large"))
    ended: list[Finished] = []
    send = Collected()
    finished = await pipeline(ended, engine).answer(asked(stream=True, n=2), send)
    assert send.chunks[:2] == said and send.error is not None and not send.ended
    assert (finished.outcome, finished.error) == (Outcome.FAILED, "Cut.") and not finished.complete
    assert ended == [finished]


async def test_a_request_that_is_cancelled_in_the_middle_is_reported_once_and_its_engine_left() -> None:
    engine = Scripted("large", streamed("Forty two")[0], asyncio.Event())
    ended: list[Finished] = []
    send = Collected()
    answering = asyncio.create_task(pipeline(ended, engine).answer(asked(stream=True), send))
    await send.began.wait()
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering
    (finished,) = ended
    assert (finished.outcome, finished.status, finished.engine) == (Outcome.ABORTED, 200, "large")
    assert engine.left == 1 and not send.ended


async def test_a_reader_that_left_ends_the_generation() -> None:
    engine = Scripted("large", *streamed("Forty two"))
    ended: list[Finished] = []
    send = Collected()
    send.gone = True
    with pytest.raises(ClientGone):
        await pipeline(ended, engine).answer(asked(stream=True), send)
    assert ended[0].outcome is Outcome.ABORTED and engine.left == 1


async def test_what_cannot_be_asked_is_refused_and_reported() -> None:
    ended: list[Finished] = []
    with pytest.raises(RequestError):
        await pipeline(ended, Scripted("large")).answer(asked(Controls(engine="other")), Collected())
    assert (ended[0].outcome, ended[0].status, ended[0].error) == (Outcome.REFUSED, 400, "unknown_engine")
