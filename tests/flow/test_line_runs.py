"""Calls that feed each other over real sockets: submits, gets, runs, streams, failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.flow.line import Asked, Got, Line, Upstream, completion, line
from tests.flow.line import upstream as scripted

EXACT_ONLY = {"examples": {"enabled": False}, "exact": {"enabled": False}}
KEY = {"Authorization": "Bearer sk-ann"}


def prompt(asked: Asked) -> str:
    """The last message's text."""
    return str(asked.json["messages"][-1]["content"])


async def echo(request: web.Request, asked: Asked) -> web.StreamResponse:
    """Says what it was asked, in angle brackets."""
    return await say(request, asked, f"<{prompt(asked)}>")


async def say(request: web.Request, asked: Asked, text: str) -> web.StreamResponse:
    if not asked.json.get("stream"):
        return web.json_response(completion(text))
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for piece in (*(text[at : at + 5] for at in range(0, len(text), 5)), None):
        await response.write(event(piece))
    await response.write(b"data: [DONE]\n\n")
    return response


def event(piece: str | None) -> bytes:
    """A chunk of an answer; None: its end, with usage."""
    choice = {"index": 0, "delta": {} if piece is None else {"content": piece}, "finish_reason": None}
    chunk: dict[str, Any] = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    if piece is None:
        choice["finish_reason"] = "stop"
        chunk["usage"] = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return b"data: " + json.dumps(chunk | {"choices": [choice]}).encode() + b"\n\n"


@pytest.fixture
async def behind() -> AsyncIterator[Upstream]:
    async with scripted() as made:
        made.script = echo
        yield made


def config(behind: Upstream, tmp_path: Path, **more: Any) -> dict[str, Any]:
    return {
        "engines": {"big": {"kind": "openai", "base_url": behind.url, "api_key": "sk-up"}},
        "models": {"m": {"engines": ["big"]}},
        "memory": {"data_dir": str(tmp_path / "data"), **EXACT_ONLY},
        **more,
    }


@pytest.fixture
async def gate(behind: Upstream, tmp_path: Path) -> AsyncIterator[Line]:
    async with line(config(behind, tmp_path)) as made:
        yield made


def body(text: str, **understudy: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], "understudy": understudy}


async def submit(gate: Line, text: str, name: str, app: str = "a", **more: Any) -> dict[str, Any]:
    asked = body(text, app=app, submit=True, output={"name": name, **more.pop("output", {})}, **more)
    got = await gate.post("/chat/completions", asked, KEY)
    assert got.status == 202, got.body
    return got.json


async def get(gate: Line, path: str, **headers: str) -> Got:
    async with gate.session.get(gate.url + path, headers=KEY | headers) as response:
        return Got(response.status, response.headers.copy(), await response.read())


async def test_two_submits_that_feed_each_other_and_a_get(gate: Line, behind: Upstream) -> None:
    first = await submit(gate, "Write {{task}}", "code", inputs={"task": "a game"})
    assert first["choices"] == [] and first["object"] == "chat.completion"
    second = await submit(gate, "Test: {{code}}", "tests")
    id = second["understudy"]["outputs"]["tests"]
    got = await get(gate, f"/variables/{id}?wait_s=30")
    assert got.status == 200 and got.json["value"] == "<Test: <Write a game>>"
    assert (await get(gate, "/apps/a/variables/code?wait_s=30")).json["value"] == "<Write a game>"
    assert [prompt(each) for each in behind.asked] == ["Write a game", "Test: <Write a game>"]
    assert not any("understudy" in each.json for each in behind.asked)
    assert behind.asked[0].headers["Authorization"] == "Bearer sk-up"


async def test_the_last_step_is_an_ordinary_call(gate: Line) -> None:
    await submit(gate, "One", "one")
    got = await gate.post("/chat/completions", body("Two {{one}}", app="a"), KEY)
    assert got.status == 200 and got.text == "<Two <One>>" and got.headers["x-understudy-run"]
    streamed = await gate.post("/chat/completions", body("3 {{one}}", app="a") | {"stream": True}, KEY)
    assert streamed.text == "<3 <One>>"
