"""Engines that refuse to be asked for a stream's usage, as Azure's Mistral does: they answer all the same."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.flow.line import Asked, Line, Upstream, line, upstream
from tests.flow.test_line_limits import PRICE, budget, make

STRICT = (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "input": {}}]})
WORDED = (400, {"error": {"message": "Unrecognized request argument supplied: stream_options"}})
INNER = (400, {"error": {"message": "include_usage is not supported"}})


@asynccontextmanager
async def _priced(tmp_path: Path, **engine: Any) -> AsyncIterator[tuple[Line, Upstream]]:
    async with upstream() as behind:
        config: dict[str, Any] = {
            "upstream": {"base_url": behind.url, "api_key": "k", "prices": {"*": PRICE}},
            "engines": {"e": {"base_url": behind.url, "api_key": "k", "price": PRICE, **engine}},
            "models": {"m": {"engines": ["e"]}},
            "memory": {
                "data_dir": str(tmp_path),
                "examples": {"enabled": False},
                "exact": {"enabled": False},
            },
        }
        async with line(config) as gate:
            yield gate, behind


def _refuses(behind: Upstream, status: int, said: Any, member: str = "stream_options") -> None:
    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        if member in asked.json:
            return web.json_response(said, status=status)
        return await behind.stream(request, asked)

    behind.script = script


def _asked(behind: Upstream) -> list[bool]:
    return ["stream_options" in asked.json for asked in behind.asked]


@pytest.mark.parametrize("refusal", [STRICT, WORDED, INNER])
async def test_it_is_asked_once_more_without_and_from_then_on(
    tmp_path: Path, refusal: tuple[int, Any]
) -> None:
    async with _priced(tmp_path) as (gate, behind):
        _refuses(behind, *refusal)
        for _ in range(2):
            got = await gate.chat("Hello", model="m", stream=True, seed=10**30)
            assert (got.status, got.text) == (200, "Forty-two.")
        assert _asked(behind) == [True, False, False]
        assert all(asked.json["seed"] == 10**30 for asked in behind.asked)
        memory = gate.gateway.memory
        assert memory is not None
        rows = memory.store.decisions.requests.recent(2)
        assert all(row.cost_usd and row.completion_tokens for row in rows)


@pytest.mark.parametrize("model", ["m", "another"])
async def test_a_key_with_a_budget_gets_its_answer_too(tmp_path: Path, model: str) -> None:
    async with _priced(tmp_path) as (gate, behind):
        _refuses(behind, *STRICT)
        who = await make(gate, budget(1))
        for _ in range(2):
            got = await who.chat("Hello", model=model, stream=True)
            assert (got.status, got.text) == (200, "Forty-two.")
        assert _asked(behind) == [True, False, False]
        assert await who.spent("usd:day") > 0


async def test_what_the_client_asked_for_itself_is_refused_as_it_came(tmp_path: Path) -> None:
    async with _priced(tmp_path) as (gate, behind):
        _refuses(behind, *STRICT)
        got = await gate.chat("Hello", model="m", stream=True, stream_options={"include_usage": True})
        assert (got.status, json.loads(got.body)) == STRICT and len(behind.asked) == 1


async def test_another_error_is_not_asked_again(tmp_path: Path) -> None:
    async with _priced(tmp_path) as (gate, behind):
        _refuses(behind, 400, {"error": {"message": "Invalid value."}})
        assert (await gate.chat("Hello", model="m", stream=True)).status == 400
        assert _asked(behind) == [True]
        _refuses(behind, *STRICT, member="model")
        for _ in range(2):
            assert (await gate.chat("Hello", model="m", stream=True)).status == 422
        assert _asked(behind)[1:] == [True, False, True, False], "it was not that which it refused"


async def test_the_operator_says_that_it_is_never_asked(tmp_path: Path) -> None:
    async with _priced(tmp_path, tells_usage=False) as (gate, behind):
        got = await gate.chat("Hello", model="m", stream=True)
        assert (got.status, _asked(behind)) == (200, [False])


async def test_a_step_that_nobody_reads_along_is_asked_whole(tmp_path: Path) -> None:
    async with _priced(tmp_path) as (gate, behind):
        _refuses(behind, *STRICT)
        for number in range(2):
            messages = [{"role": "user", "content": f"Hello {number}"}]
            step = {"model": "m", "messages": messages, "understudy": {"output": {"name": "said"}}}
            got = await gate.post("/runs", {"steps": [step]})
            assert got.status == 200 and got.json["steps"][0]["status"] == "done", got.body
        assert _asked(behind) == [False, False], "a whole answer tells its usage by itself"
