"""Requests that carry tools go to the reference, or are routed by what comparing their answers shows, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from learning.guarantee.proof import ProofFollower
from learning.outcomes.judging import Judging
from tests.flow.line import Asked, Line, Script, completion, line, upstream

TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
Call = Callable[[dict[str, Any]], tuple[str, dict[str, Any]]]


def right(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "weather", {"city": body["messages"][-1]["content"].split()[-1], "days": 2}


def wrong(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "weather", {"city": "Paris", "days": 2}


def calling(call: Call, spaces: str) -> Script:
    """A model that calls a tool; what is no value in its arguments differs from model to model."""

    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        name, arguments = call(asked.json)
        function = {"name": name, "arguments": json.dumps(arguments, indent=len(spaces) or None)}
        calls = [{"id": f"call{len(asked.body)}", "type": "function", "function": function}]
        return web.json_response(
            completion("", message={"content": None, "tool_calls": calls}, finish_reason="tool_calls")
        )

    return script


@asynccontextmanager
async def tools(data: Path, with_tools: str, small_calls: Call) -> AsyncIterator[tuple[Line, list[Asked]]]:
    async with upstream() as small, upstream() as large:
        small.script, large.script = calling(small_calls, "  "), calling(right, "")
        price = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1}
        config = {
            "engines": {
                "small": {"base_url": small.url, "api_key": "none", "price": price},
                "large": {"base_url": large.url, "api_key": "none", "price": dict.fromkeys(price, 20)},
            },
            "models": {
                "gpt-4o": {
                    "engines": ["small", "large"],
                    "policy": "few_shot",
                    "proof": "on",
                    "max_loss": 0.3,
                    "advanced": {"with_tools": with_tools},
                }
            },
            "memory": {"data_dir": str(data)},
        }
        async with line(config) as gate:
            yield gate, small.asked


async def asked(gate: Line, count: int) -> list[str]:
    """Who answered each, one after the other, each comparison done before the next."""
    engines = []
    (judging,), (follower,) = gate.gateway.parts.owned(Judging), gate.gateway.parts.owned(ProofFollower)
    for number in range(count):
        got = await gate.chat(f"What will the weather be like in Town{number}", tools=TOOLS)
        assert got.status == 200
        engines.append(got.headers["x-understudy-engine"])
        await gate.settled()
        await judging.join()
        await gate.settled()
        assert await asyncio.to_thread(follower.caught_up)
    return engines


async def test_tools_go_to_the_reference_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    async with tools(tmp_path, "off", right) as (gate, of_small):
        assert set(await asked(gate, 3)) == {"large"} and of_small == []


@pytest.mark.slow
async def test_a_small_engine_that_calls_tools_as_the_reference_does_answers_in_the_end(
    tmp_path: Path,
) -> None:
    async with tools(tmp_path, "route", right) as (gate, of_small):
        engines = await asked(gate, 60)
        assert engines[0] == "large" and engines[-1] == "small"
        assert all(len(each.json["messages"]) == 1 for each in of_small), "no example is sent with tools"
        assert all(each.json["tools"] == TOOLS for each in of_small)


@pytest.mark.slow
async def test_a_small_engine_that_calls_tools_wrongly_never_answers(tmp_path: Path) -> None:
    async with tools(tmp_path, "route", wrong) as (gate, of_small):
        assert set(await asked(gate, 60)) == {"large"}
        assert of_small, "it was compared"


@pytest.mark.parametrize("stored", ["off", "route", "examples"])
async def test_no_answer_that_calls_a_tool_becomes_an_example(tmp_path: Path, stored: str) -> None:
    async with tools(tmp_path, stored, right) as (gate, _):
        await asked(gate, 2)
        memory = gate.gateway.memory
        assert memory is not None and memory.store.examples.count() == 0


async def test_a_tool_loop_goes_on_at_the_engine_that_began_it(tmp_path: Path) -> None:
    async with tools(tmp_path, "route", right) as (gate, of_small):
        first = [{"role": "user", "content": "What is the weather in Rome"}]
        by_small = await gate.chat(first, {"x-understudy-engine": "small"}, tools=TOOLS)
        said = by_small.json["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "Sunny."}
        then = await gate.chat([*first, said, result], tools=TOOLS)
        assert then.headers["x-understudy-engine"] == "small", "although nothing is proven of it"
        assert len(of_small) == 2
        again = await gate.chat(
            [*first, said, result, said | {"tool_calls": None, "content": "Sunny."}, *first]
        )
        assert again.headers["x-understudy-engine"] == "large", "the next question is free again"
