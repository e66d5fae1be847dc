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

from engines.as_events import as_events
from learning.guarantee.proof import ProofFollower
from learning.outcomes.judging import Judging
from tests.flow.line import Asked, Got, Line, Script, completion, line, upstream

PARAMETERS = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]
Call = Callable[[dict[str, Any]], tuple[str, dict[str, Any]]]


def right(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "weather", {"city": body["messages"][-1]["content"].split()[-1], "days": 2}


def wrong(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "weather", {"city": "Paris", "days": 2}


def calling(call: Call, spaces: str) -> Script:
    """A model that calls a tool, streamed or not; what is no value in its arguments differs from model to model."""

    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        name, arguments = call(asked.json)
        function = {"name": name, "arguments": json.dumps(arguments, indent=len(spaces) or None)}
        calls = [{"id": f"call{len(asked.body)}", "type": "function", "function": function}]
        said = completion("", message={"content": None, "tool_calls": calls}, finish_reason="tool_calls")
        if not asked.json.get("stream"):
            return web.json_response(said)
        body = as_events(json.dumps(said).encode(), include_usage=True)
        return web.Response(body=body, headers={"Content-Type": "text/event-stream"})

    return script


def malformed(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "weather", {"days": "two"}


@asynccontextmanager
async def tools(
    data: Path, with_tools: str | None, small_calls: Call
) -> AsyncIterator[tuple[Line, list[Asked]]]:
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
    # It is what happens where nobody says anything else.
    async with tools(tmp_path, None, right) as (gate, of_small):
        engines = await asked(gate, 60)
        assert engines[0] == "large" and engines[-1] == "small"
        assert all(len(each.json["messages"]) == 1 for each in of_small), "no example is sent with tools"
        assert all(each.json["tools"] == TOOLS for each in of_small)


@pytest.mark.slow
async def test_calls_that_turn_malformed_reach_no_client_and_are_comparisons_lost(tmp_path: Path) -> None:
    now: list[Call] = [right]
    async with tools(tmp_path, None, lambda body: now[0](body)) as (gate, _):
        assert (await asked(gate, 60))[-1] == "small"
        now[0] = malformed
        memory, repaired, lost = gate.gateway.memory, 0, False
        assert memory is not None
        # A coin decides which of them are compared.
        for number in range(1000):
            got = await gate.chat(f"What will the weather be like in Place{number}", tools=TOOLS)
            assert calls_of(got) == ("weather", {"city": f"Place{number}", "days": 2})
            assert got.headers["x-understudy-engine"] == "large"
            repaired += got.headers.get("x-understudy-reason") == "repaired"
            rows = memory.store.outcomes.after(0, 10_000, model="gpt-4o")
            lost = any(each.quality == 0.0 and not each.completion_tokens for each in rows)
            if lost:
                break
        assert repaired and lost


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


@asynccontextmanager
async def trusted(data: Path, small_calls: Call) -> AsyncIterator[tuple[Line, list[Asked]]]:
    """Its small engine answers whatever was asked before, without a proof."""
    async with upstream() as small, upstream() as large:
        small.script, large.script = calling(small_calls, "  "), calling(right, "")
        config = {
            "engines": {
                name: {"base_url": each.url, "api_key": "none"}
                for name, each in (("small", small), ("large", large))
            },
            "models": {
                "gpt-4o": {
                    "engines": ["small", "large"],
                    "policy": "few_shot",
                    "proof": "off",
                    "few_shot": {"theta": -1, "m": 1},
                    "advanced": {"with_tools": "examples"},
                }
            },
            "memory": {"data_dir": str(data)},
        }
        async with line(config) as gate:
            large.script = None
            await gate.chat("Where is the Colosseum?")
            large.script = calling(right, "")
            yield gate, small.asked


def calls_of(got: Got) -> Any:
    """The name and the arguments of the one call in an answer, streamed or not."""
    if got.headers["Content-Type"].startswith("text/event-stream"):
        deltas = [each["choices"][0]["delta"] for each in got.events if each["choices"]]
        (call,) = next(delta["tool_calls"] for delta in deltas if delta.get("tool_calls"))
    else:
        (call,) = got.json["choices"][0]["message"]["tool_calls"]
    return call["function"]["name"], json.loads(call["function"]["arguments"])


@pytest.mark.parametrize("stream", [False, True])
async def test_a_malformed_call_is_asked_of_the_reference_instead(tmp_path: Path, stream: bool) -> None:
    async with trusted(tmp_path, malformed) as (gate, of_small):
        got = await gate.chat("The weather in Rome", tools=TOOLS, stream=stream)
        assert calls_of(got) == ("weather", {"city": "Rome", "days": 2}) and len(of_small) == 1
        assert got.headers["x-understudy-engine"] == "large"
        assert got.headers["x-understudy-reason"] == "repaired"
        assert "x-understudy-failed-over" not in got.headers


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_as_the_request_offers_it_is_passed_on(tmp_path: Path, stream: bool) -> None:
    async with trusted(tmp_path, wrong) as (gate, _):
        got = await gate.chat("The weather in Rome", tools=TOOLS, stream=stream)
        assert calls_of(got) == ("weather", {"city": "Paris", "days": 2})
        assert got.headers["x-understudy-engine"] == "small"


async def test_a_client_that_names_the_small_engine_gets_its_call_whatever_it_is(tmp_path: Path) -> None:
    async with trusted(tmp_path, malformed) as (gate, _):
        got = await gate.chat("The weather in Rome", {"x-understudy-engine": "small"}, tools=TOOLS)
        assert calls_of(got) == ("weather", {"days": "two"})


async def test_tools_that_an_engine_runs_go_to_the_reference(tmp_path: Path) -> None:
    async with tools(tmp_path, "route", right) as (gate, of_small):
        hosted = [*TOOLS, {"type": "google_search"}]
        got = await gate.chat("The weather in Rome", tools=hosted)
        await gate.settled()
        assert got.headers["x-understudy-engine"] == "large" and not of_small
        assert got.headers.get("x-understudy-reason") != "shadow"


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


async def test_the_steps_of_a_conversation_are_noted_as_one_unit_of_evidence(tmp_path: Path) -> None:
    async with tools(tmp_path, None, right) as (gate, _):
        memory = gate.gateway.memory
        assert memory is not None

        async def unit(question: str, *more: dict[str, Any], session: str) -> float:
            messages = [{"role": "user", "content": question}, *more]
            got = await gate.chat(messages, {"x-understudy-session": session}, tools=TOOLS)
            choice = memory.store.decisions.choices.get("default", got.headers["x-understudy-decision-id"])
            assert choice is not None
            return choice.noted["unit"]

        call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        step = (
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "1"},
        )
        first = await unit("The weather in Rome", session="a")
        assert await unit("The weather in Rome", *step, session="a") == first
        assert await unit("The weather in Rome", session="b") != first
