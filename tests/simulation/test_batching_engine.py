"""The engine over a batch, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest
from multidict import CIMultiDict

from engines.chat import ChatRequest
from engines.engine import EngineInfo, EngineRequest
from simulation.batching import Rules, Speed
from simulation.batching_engine import BatchingEngine, Served, answer_text
from simulation.virtual_time import run
from tests.answers import from_events, from_json

SPEED = Speed(step_s=0.01, kv_token_s=0.0, prefill_token_s=1e-4, kv_tokens=4_000)


def request(text: str, answer: int, *, stream: bool = False) -> EngineRequest:
    fields: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": "user", "content": text}],
        "max_tokens": answer,
        "stream": stream,
        "stream_options": {"include_usage": True},
    }
    body = orjson.dumps(fields)
    chat = ChatRequest(body, fields, "m", fields["messages"], stream, include_usage=True)
    return EngineRequest("POST", "/chat/completions", CIMultiDict(), body, chat)


async def asked(engine: BatchingEngine, what: EngineRequest) -> bytes:
    async with engine.stream(what) as reply:
        assert reply.headers["x-simulated"] == "true"
        return b"".join([chunk async for chunk in reply.chunks])


def played(main: Callable[[BatchingEngine], Awaitable[Any]], rules: Rules | None = None) -> list[Served]:
    served: list[Served] = []

    async def inside() -> None:
        engine = BatchingEngine(
            EngineInfo("sim"), SPEED, rules or Rules(), lambda one, request: served.append(one)
        )
        await main(engine)
        assert engine.batch.kv_use == 0.0 and engine.load().in_flight == 0

    run(inside)
    return served


def test_an_answer_has_its_length_and_takes_its_time() -> None:
    async def main(engine: BatchingEngine) -> None:
        completion = from_json(await asked(engine, request("a" * 384, 10)))
        assert completion is not None and completion.whole
        usage = completion.usage()
        assert usage is not None and (usage.prompt_tokens, usage.completion_tokens) == (100, 10)
        assert len(completion.text()) == 40
        assert asyncio.get_running_loop().time() == pytest.approx(10 * 0.01 + 100 * 1e-4)

    (one,) = played(main)
    assert one.first_s == pytest.approx(0.02) and one.ended_s == pytest.approx(0.11)
    assert one.token_s == pytest.approx(0.01)


def test_a_stream_says_the_same() -> None:
    async def main(engine: BatchingEngine) -> None:
        streamed = from_events(await asked(engine, request("a" * 384, 10, stream=True)))
        whole = from_json(await asked(engine, request("a" * 384, 10)))
        assert streamed is not None and whole is not None and streamed.whole
        assert streamed.text() == whole.text()
        assert streamed.usage() is not None

    first, second = played(main)
    assert (first.cached_tokens, second.cached_tokens) == (0, 96)


def test_one_who_comes_while_others_decode_begins_with_the_next_step() -> None:
    async def main(engine: BatchingEngine) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asked(engine, request("a" * 384, 100)))
            await asyncio.sleep(0.505)
            group.create_task(asked(engine, request("b" * 384, 2)))

    late, early = played(main)
    # The first prompt took 0.02 s; steps of 0.01 s after it end at 0.51 s.
    assert late.first_s == pytest.approx(0.51 + 0.01 + 100 * 1e-4)
    assert early.ended_s == pytest.approx(0.02 + 99 * 0.01 + 100 * 1e-4)


def test_one_who_leaves_is_computed_no_further() -> None:
    async def main(engine: BatchingEngine) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await asked(engine, request("a" * 384, 300))
        assert engine.batch.running == 0
        await asked(engine, request("b" * 384, 2))
        assert asyncio.get_running_loop().time() < 0.6

    assert len(played(main)) == 1


def test_what_can_never_fit_is_refused_in_words() -> None:
    async def main(engine: BatchingEngine) -> None:
        async with engine.stream(request("a" * 40_000, 10)) as reply:
            assert reply.status == 400
            assert b"context_length_exceeded" in b"".join([chunk async for chunk in reply.chunks])

    assert played(main) == []


def test_the_text_depends_on_the_prompt_only() -> None:
    assert answer_text("one", 7) == answer_text("one", 9)[:28] != answer_text("two", 7)


def test_a_list_is_told_piece_by_piece_as_its_tokens_come() -> None:
    async def inside() -> None:
        pieces = ["a" * 16, "b" * 10, "c" * 400]
        engine = BatchingEngine(EngineInfo("sim"), SPEED, Rules(), says=lambda fields, prompt, most: pieces)
        loop, told = asyncio.get_running_loop(), []
        async with engine.stream(request("q" * 384, 20, stream=True)) as reply:
            async for chunk in reply.chunks:
                event = chunk.removeprefix(b"data: ").strip()
                choices = orjson.loads(event)["choices"] if event != b"[DONE]" else []
                if choices and (text := choices[0]["delta"].get("content")):
                    told.append((round(loop.time(), 3), text))
        # The prompt takes 0.02 s with the first token; then tokens take 0.01 s each. 20 tokens are allowed.
        assert told == [
            (0.02, "aaaa"),
            (0.05, "a" * 12),
            (0.08, "b" * 10),
            (0.21, "c" * (80 - 26)),
        ]

    run(inside)
