"""An engine that dies in the middle of its answer: another carries on, and the client reads one answer over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.engines.vllm_pages import Chat, Pages, pages
from tests.flow.line import Got, Line, line

QUESTION = "What is the answer?"
ERROR = b'data: {"error": {"message": "EngineCore died", "type": "InternalServerError", "code": 500}}\n\n'


def event(model: str, delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> bytes:
    head = {"id": f"chatcmpl-{model}", "object": "chat.completion.chunk", "created": 1, "model": model}
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps(head | {"choices": choices} | more).encode() + b"\n\n"


def role(model: str) -> bytes:
    return event(model, {"role": "assistant", "content": ""})


async def began(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    return response


def dying(*before: bytes) -> Chat:
    """Says so much, then the connection is gone."""

    async def chat(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        response = await began(request)
        for chunk in before:
            await response.write(chunk)
            await asyncio.sleep(0.01)
        assert request.transport is not None
        request.transport.abort()
        return response

    return chat


def failing(*before: bytes) -> Chat:
    """Says so much, then an error event and a proper end, as vLLM does when its engine dies."""

    async def chat(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        response = await began(request)
        for chunk in (*before, ERROR, b"data: [DONE]\n\n"):
            await response.write(chunk)
        return response

    return chat


def saying(model: str, *pieces: str) -> Chat:
    """A whole stream, with usage if asked for."""

    async def chat(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        response = await began(request)
        await response.write(role(model))
        for piece in pieces:
            await response.write(event(model, {"content": piece}))
        await response.write(event(model, {}, "stop"))
        if (asked.get("stream_options") or {}).get("include_usage"):
            usage = {"prompt_tokens": 10, "completion_tokens": len(pieces)}
            await response.write(event(model, None, usage=usage | {"total_tokens": 10 + len(pieces)}))
        await response.write(b"data: [DONE]\n\n")
        return response

    return chat


@dataclass
class Stage:
    """The reference, which breaks, the understudy, which carries on, and the gateway before them."""

    large: Pages
    small: Pages
    line: Line
    journeys: list[Any] = field(default_factory=list)

    async def ask(self, **fields: Any) -> Got:
        body = {
            "model": "gpt-4o",
            "messages": [{"role": "user", "content": QUESTION}],
            "stream": True,
        } | fields
        return await self.line.post("/chat/completions", body)


@asynccontextmanager
async def stage(tmp_path: Path, *, model: dict[str, Any] | None = None) -> AsyncIterator[Stage]:
    async with pages() as large, pages() as small:
        large.model, small.model = "large", "small"
        engines = {
            name: {
                "kind": "vllm",
                "base_url": server.url,
                "model": name,
                "price": {"input_usd_per_mtok": price, "output_usd_per_mtok": price},
            }
            for name, server, price in (("large", large, 10), ("small", small, 1))
        }
        config = {
            "engines": engines,
            "models": {"gpt-4o": {"engines": ["small", "large"]} | (model or {})},
            "memory": {"data_dir": str(tmp_path), "examples": {"enabled": False}},
        }
        async with line(config) as one:
            yield Stage(large, small, one)


@pytest.fixture
async def on(tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage(tmp_path) as made:
        yield made


@pytest.mark.parametrize("breaks", [dying, failing])
async def test_the_client_reads_one_well_formed_answer(on: Stage, breaks: Callable[..., Chat]) -> None:
    on.large.chat = breaks(
        role("large"), event("large", {"content": "Forty"}), event("large", {"content": "-two "})
    )
    on.small.chat = saying("small", " and", " a half.")
    got = await on.ask()
    assert got.status == 200 and got.text == "Forty-two and a half."
    assert {event["id"] for event in got.events} == {"chatcmpl-large"}
    assert {event["model"] for event in got.events} == {"large"}
    deltas = [choice for event in got.events for choice in event["choices"]]
    assert [d["delta"]["role"] for d in deltas if "role" in d["delta"]] == ["assistant"]
    assert [d["finish_reason"] for d in deltas if d["finish_reason"]] == ["stop"]
    assert got.body.count(b"[DONE]") == 1 and b"error" not in got.body
    assert b"\n\n: understudy: small carries on from here\n\n" in got.body


async def test_the_new_engine_is_asked_to_go_on_and_its_tenant_is_still_apart(on: Stage) -> None:
    on.large.chat = dying(role("large"), event("large", {"content": "Forty "}))
    on.small.chat = saying("small", "two")
    await on.ask(max_tokens=50, temperature=0)
    asked = on.small.asked[0]
    assert asked["messages"] == [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": "Forty"},
    ]
    assert asked["continue_final_message"] is True and asked["add_generation_prompt"] is False
    assert asked["model"] == "small" and asked["temperature"] == 0 and asked["max_tokens"] == 49
    assert asked["cache_salt"] == on.large.asked[0]["cache_salt"]


async def test_half_an_event_never_reaches_the_client(on: Stage) -> None:
    on.large.chat = dying(
        role("large"), event("large", {"content": "Forty"}), event("large", {"content": "-x"})[:40]
    )
    on.small.chat = saying("small", "-two")
    assert (await on.ask()).text == "Forty-two"


async def test_where_nothing_was_said_the_next_is_simply_asked(on: Stage) -> None:
    on.large.chat = dying(role("large"))
    on.small.chat = saying("small", "Forty-two")
    got = await on.ask()
    assert got.text == "Forty-two"
    assert "continue_final_message" not in on.small.asked[0]
    assert [m["role"] for m in on.small.asked[0]["messages"]] == ["user"]


async def test_usage_and_cost_are_both_engines_together(on: Stage) -> None:
    on.large.chat = dying(role("large"), event("large", {"content": "one two three"}))
    on.small.chat = saying("small", " four", " five")
    got = await on.ask(stream_options={"include_usage": True})
    # The server's tokenizer counts words: three were said before, and were part of the new engine's prompt of ten.
    assert got.events[-1]["usage"] == {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    assert on.line.gateway.memory is not None
    requests = on.line.gateway.memory.requests
    assert requests is not None
    row = requests.recent(1)[0]
    assert (row.engine, row.continued, row.outcome) == ("large", "small", "answered")
    assert row.cost_usd == pytest.approx(((7 + 3) * 10 + (10 + 2) * 1) / 1e6)


async def test_it_is_counted_and_not_remembered(on: Stage) -> None:
    on.large.chat = dying(role("large"), event("large", {"content": "Forty"}))
    on.small.chat = saying("small", "-two")
    await on.ask()
    again = await on.ask()
    assert not again.hit and len(on.small.asked) == 2
    figures = on.line.gateway.metrics.exposition().decode()
    assert 'understudy_continued_total{by="small",engine="large"} 2.0' in figures
    assert 'understudy_remembered_total{kind="exact",result="stand_in"} 2.0' in figures


async def test_one_that_breaks_again_is_followed_by_the_next(on: Stage) -> None:
    """The last to be asked is the first engine itself: it may be back by then."""
    calls = 0

    async def large(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        nonlocal calls
        calls += 1
        chat = (
            saying("large", " three")
            if calls > 1
            else dying(role("large"), event("large", {"content": "one"}))
        )
        return await chat(request, asked)

    on.large.chat = large
    on.small.chat = dying(role("small"), event("small", {"content": " two"}))
    got = await on.ask()
    assert got.text == "one two three"
    assert on.large.asked[1]["messages"][-1] == {"role": "assistant", "content": "one two"}
    assert [d["delta"].get("role") for e in got.events for d in e["choices"]].count("assistant") == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"logprobs": True},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"response_format": {"type": "json_object"}},
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hel"}]},
    ],
)
async def test_what_cannot_be_continued_ends_with_an_error_as_ever(on: Stage, fields: dict[str, Any]) -> None:
    on.large.chat = dying(role("large"), event("large", {"content": "Forty"}))
    on.small.chat = saying("small", "-two")
    with pytest.raises(Exception):  # noqa: B017 - whatever the client calls a connection that ends too early
        await on.ask(**fields)
    assert not on.small.asked


async def test_it_can_be_switched_off(tmp_path: Path) -> None:
    async with stage(tmp_path, model={"advanced": {"continue_broken": False}}) as made:
        made.large.chat = failing(role("large"), event("large", {"content": "Forty"}))
        got = await made.ask()
        assert b"EngineCore died" in got.body and not made.small.asked


async def test_when_nobody_can_carry_on_the_error_is_passed_on_as_it_came(on: Stage) -> None:
    on.large.chat = failing(role("large"), event("large", {"content": "Forty"}))

    async def refuses(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no", "code": 400}}, status=400)

    on.small.chat = refuses
    got = await on.ask()
    assert got.body.endswith(ERROR + b"data: [DONE]\n\n")


async def test_a_refusal_to_say_more_is_nobodys_to_overrule(on: Stage) -> None:
    refusal = b'data: {"error": {"message": "filtered", "type": "invalid_request_error", "code": 400}}\n\n'

    async def large(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        response = await began(request)
        for chunk in (role("large"), event("large", {"content": "Forty"}), refusal, b"data: [DONE]\n\n"):
            await response.write(chunk)
        return response

    on.large.chat = large
    got = await on.ask()
    assert refusal in got.body and not on.small.asked


async def test_a_client_that_left_is_not_carried_on_for(on: Stage) -> None:
    left = asyncio.Event()

    async def large(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        response = await began(request)
        await response.write(role("large") + event("large", {"content": "Forty"}))
        await left.wait()
        await asyncio.sleep(0.2)
        assert request.transport is None or request.transport.is_closing()
        return response

    on.large.chat = large
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": QUESTION}], "stream": True}
    async with on.line.session.post(on.line.url + "/chat/completions", json=body) as response:
        await response.content.readany()
        response.close()
    left.set()
    await on.line.settled()
    await asyncio.sleep(0.3)
    assert not on.small.asked and len(on.large.asked) == 1
