"""Exact repeats over real sockets: what is answered from memory, and what must never be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.flow.line import Asked, Line, Upstream, completion, line, upstream

EXACT_ONLY = {"examples": {"enabled": False}}


@pytest.fixture
async def behind() -> AsyncIterator[Upstream]:
    async with upstream() as made:
        yield made


@pytest.fixture
async def gate(behind: Upstream, tmp_path: Path) -> AsyncIterator[Line]:
    memory = {"data_dir": str(tmp_path / "data"), **EXACT_ONLY}
    async with line({"upstream": {"base_url": behind.url}, "memory": memory}) as made:
        yield made


async def test_the_same_request_is_answered_from_memory_byte_for_byte(gate: Line, behind: Upstream) -> None:
    first, second = await gate.chat("What is six times seven?"), await gate.chat("What is six times seven?")
    assert len(behind.asked) == 1
    assert first.headers["Cache-Status"] == "understudy; fwd=miss" and not first.hit
    assert second.hit and second.body == first.body
    assert second.headers["Content-Type"].startswith("application/json")


async def test_key_order_and_fields_that_change_no_answer_still_hit(gate: Line, behind: Upstream) -> None:
    await gate.post(
        "/chat/completions", {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "seed": 1}
    )
    again = {
        "seed": 1,
        "messages": [{"content": "Hi", "role": "user"}],
        "model": "gpt-4o",
        "prompt_cache_key": "u-7",
        "metadata": {"a": "b"},
    }
    assert (await gate.post("/chat/completions", again)).hit
    assert len(behind.asked) == 1


@pytest.mark.parametrize(
    "change", [{"temperature": 0.5}, {"seed": 2}, {"model": "gpt-4o-mini"}, {"brand_new_field": None}]
)
async def test_any_other_difference_is_a_miss(gate: Line, behind: Upstream, change: dict[str, Any]) -> None:
    await gate.chat("Hi", seed=1)
    assert not (await gate.chat("Hi", **({"seed": 1} | change))).hit
    assert len(behind.asked) == 2


async def test_a_streamed_answer_serves_both_kinds_of_client(gate: Line, behind: Upstream) -> None:
    behind.says = "The answer is forty-two, as everybody knows by now."
    streamed = await gate.chat("Q", stream=True, stream_options={"include_usage": True})
    plain = await gate.chat("Q")
    again = await gate.chat("Q", stream=True)
    assert len(behind.asked) == 1 and plain.hit and again.hit
    assert streamed.text == plain.text == again.text
    assert plain.json["object"] == "chat.completion" and plain.json["usage"]["total_tokens"] == 10


async def test_a_plain_answer_is_replayed_as_a_real_stream(gate: Line, behind: Upstream) -> None:
    behind.says = "One two three four five six seven eight nine ten eleven twelve."
    await gate.chat("Count")
    streamed = await gate.chat("Count", stream=True)
    assert streamed.hit and streamed.headers["Content-Type"].startswith("text/event-stream")
    deltas = [e["choices"][0]["delta"] for e in streamed.events]
    assert deltas[0]["role"] == "assistant" and len(deltas) > 4, "in pieces, not as one blob"
    assert streamed.events[-1]["choices"][0]["finish_reason"] == "stop"
    assert streamed.text == behind.says


async def test_usage_on_a_replayed_stream_is_as_asked_for(gate: Line) -> None:
    await gate.chat("Q")
    silent = await gate.chat("Q", stream=True)
    told = await gate.chat("Q", stream=True, stream_options={"include_usage": True})
    assert all("usage" not in event for event in silent.events)
    assert told.events[-1]["usage"]["total_tokens"] == 10 and told.events[-1]["choices"] == []
    assert all(event["usage"] is None for event in told.events[:-1])


async def test_usage_nobody_counted_is_estimated_and_says_so(gate: Line) -> None:
    await gate.chat("Q", stream=True)
    plain = await gate.chat("Q")
    assert plain.hit and plain.headers["x-understudy-usage"] == "estimated"
    assert plain.json["usage"]["completion_tokens"] > 0


async def test_no_cache_asks_again_and_keeps_the_fresh_answer(gate: Line, behind: Upstream) -> None:
    await gate.chat("Q")
    behind.says = "Forty-three."
    fresh = await gate.chat("Q", {"Cache-Control": "no-cache"})
    assert fresh.headers["Cache-Status"] == "understudy; fwd=bypass" and fresh.text == "Forty-three."
    later = await gate.chat("Q")
    assert later.hit and later.text == "Forty-three."


@pytest.mark.parametrize(("headers", "fields"), [({"Cache-Control": "no-store"}, {}), ({}, {"store": False})])
async def test_an_opted_out_answer_is_not_kept(
    gate: Line, behind: Upstream, headers: dict[str, str], fields: dict[str, Any]
) -> None:
    await gate.chat("secret plan", headers, **fields)
    assert not (await gate.chat("secret plan")).hit
    assert len(behind.asked) == 2


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_errors_are_not_kept(gate: Line, behind: Upstream, status: int) -> None:
    async def fail(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response(
            {"error": {"message": "no", "type": "t", "param": None, "code": "c"}}, status=status
        )

    behind.script = fail
    assert (await gate.chat("Q")).status == status
    behind.script = None
    assert (await gate.chat("Q")).text == "Forty-two."


async def test_a_stream_without_its_terminal_event_is_an_error_and_not_kept(
    gate: Line, behind: Upstream
) -> None:
    async def cut(request: web.Request, asked: Asked) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(
            b'data: {"choices":[{"index":0,"delta":{"content":"Forty"},"finish_reason":null}]}\n\n'
        )
        return response

    behind.script = cut
    body = b'{"model":"gpt-4o","messages":[{"role":"user","content":"Q"}],"stream":true}'
    seen = b""
    with pytest.raises(Exception, match=r"payload|Transfer|closed|Disconnected"):
        async with gate.session.post(gate.url + "/chat/completions", data=body) as response:
            async for chunk in response.content.iter_any():
                seen += chunk
    assert b"Forty" in seen and b'"error"' in seen and b"[DONE]" not in seen
    await gate.settled()
    behind.script = None
    assert not (await gate.chat("Q", stream=True)).hit


async def test_answers_that_call_tools_or_were_cut_short_are_not_kept(gate: Line, behind: Upstream) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    answers = [
        completion("", message={"content": None, "tool_calls": [call]}, finish_reason="tool_calls"),
        completion("half of", finish_reason="length"),
    ]
    for answer in answers:

        async def say(
            request: web.Request, asked: Asked, answer: dict[str, Any] = answer
        ) -> web.StreamResponse:
            return web.json_response(answer)

        behind.script = say
        await gate.chat("Q", seed=len(behind.asked))
        behind.script = None
        assert not (await gate.chat("Q", seed=len(behind.asked) - 1)).hit


async def test_several_choices_are_replayed_whole(gate: Line) -> None:
    first = await gate.chat("Q", n=3)
    second = await gate.chat("Q", n=3, stream=True)
    assert len(first.json["choices"]) == 3
    assert second.hit and {c["index"] for e in second.events for c in e["choices"]} == {0, 1, 2}


async def test_two_clients_with_different_credentials_never_share_an_answer(
    gate: Line, behind: Upstream
) -> None:
    await gate.chat("Q", {"Authorization": "Bearer sk-alice"})
    assert not (await gate.chat("Q", {"Authorization": "Bearer sk-bob"})).hit
    assert (await gate.chat("Q", {"Authorization": "Bearer sk-alice"})).hit
    assert [a.headers["Authorization"] for a in behind.asked] == ["Bearer sk-alice", "Bearer sk-bob"]


async def test_embeddings_are_answered_from_memory_too(gate: Line, behind: Upstream) -> None:
    first = await gate.post("/embeddings", {"model": "e", "input": "text"})
    second = await gate.post("/embeddings", {"input": "text", "model": "e"})
    other = await gate.post("/embeddings", {"model": "e", "input": "another text"})
    assert second.hit and second.body == first.body and not other.hit
    assert len(behind.asked) == 2


async def test_an_answer_survives_a_restart(behind: Upstream, tmp_path: Path) -> None:
    config = {"upstream": {"base_url": behind.url}, "memory": {"data_dir": str(tmp_path), **EXACT_ONLY}}
    async with line(config) as first:
        await first.chat("Q")
    async with line(config) as second:
        assert (await second.chat("Q")).hit
    assert len(behind.asked) == 1


async def test_an_answer_expires(behind: Upstream, tmp_path: Path) -> None:
    memory = {"data_dir": str(tmp_path), "exact": {"ttl_s": 0.05}, **EXACT_ONLY}
    async with line({"upstream": {"base_url": behind.url}, "memory": memory}) as gate:
        await gate.chat("Q")

        await asyncio.sleep(0.1)
        assert not (await gate.chat("Q")).hit


async def test_compressed_upstream_answers_are_understood(gate: Line, behind: Upstream) -> None:
    async def zipped(request: web.Request, asked: Asked) -> web.StreamResponse:
        response = web.json_response(completion("Forty-two."))
        response.enable_compression(web.ContentCoding.gzip)
        return response

    behind.script = zipped
    first = await gate.chat("Q", {"Accept-Encoding": "gzip, br, zstd"})
    assert first.headers["Content-Encoding"] == "gzip"
    assert behind.asked[0].headers["Accept-Encoding"] == "gzip", "nothing we could not read is asked for"
    second = await gate.chat("Q")
    assert second.hit and second.text == "Forty-two."
