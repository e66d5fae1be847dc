"""Who answers where an engine is slow, down, or falls silent in the middle: an unproven engine does where it is listed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.engines.asking import closed_port
from tests.flow.line import Asked, Got, Line, Script, Upstream, events, line, upstream

POLICIES = ["few_shot", "in_context"]
QUESTION = "What does the error code 7 of the coffee machine mean?"
SAYS, SMALL_SAYS = "The water tank is empty.", "From the small one."
SLOW_S = 1.0
BRIEF = {"first_data_s": 0.3, "gap_s": 0.3, "answer_s": 0.3}


class Here:
    """Two engines of one model: `small` continues answers, `large` is the reference."""

    def __init__(self, gate: Line, small: Upstream, large: Upstream) -> None:
        self.gate, self.small, self.large = gate, small, large

    async def ask(self, **fields: Any) -> Got:
        return await self.gate.chat(QUESTION, **fields)

    def asked_small(self) -> list[Asked]:
        """What clients' requests asked of it: others are rehearsals, which are no streams."""
        return [one for one in self.small.asked if one.json.get("stream")]


@asynccontextmanager
async def two(
    data: Path,
    policy: str = "few_shot",
    *,
    limits: dict[str, float] | None = None,
    large_url: str | None = None,
    **model: Any,
) -> AsyncIterator[Here]:
    async with upstream() as small, upstream() as large:
        small.says, large.says = SMALL_SAYS, SAYS
        price = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1}
        advanced = {"attempts": 1, "continues": "prefill"}
        served = {"engines": ["small", "large"], "policy": policy, "proof": "on"} | model
        config = {
            "engines": {
                "small": {"base_url": small.url, "api_key": "none", "price": price, "advanced": advanced},
                "large": {
                    "base_url": large_url or large.url,
                    "api_key": "none",
                    "price": price,
                    "advanced": advanced | (limits or {}),
                },
            },
            "models": {"gpt-4o": served},
            "memory": {"data_dir": str(data), "exact": {"enabled": False}},
        }
        async with line(config) as gate:
            yield Here(gate, small, large)


def pausing(after: int) -> Script:
    """Says the first so many events of its answer (the first names its role), pauses, and says the rest."""

    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        if not asked.json.get("stream"):
            return web.json_response({"error": {"message": "streams only"}}, status=400)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number, event in enumerate([*events(SAYS, usage=False), b"data: [DONE]\n\n"]):
            if number == after:
                await asyncio.sleep(SLOW_S)
            await response.write(event)
        return response

    return script


async def fails(request: web.Request, asked: Asked) -> web.StreamResponse:
    return web.json_response({"error": {"message": "out of order", "type": "server_error"}}, status=503)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("listed", [None, ["small"]])
@pytest.mark.parametrize("after", [0, 1, 4])
async def test_the_slow_reference_answers_beside_an_unproven_engine_even_if_that_is_listed(
    tmp_path: Path, policy: str, listed: list[str] | None, after: int
) -> None:
    async with two(tmp_path, policy, stand_ins=listed) as here:
        here.large.script = pausing(after)
        got = await here.ask(stream=True)
        assert (got.text, got.headers["x-understudy-engine"]) == (SAYS.replace(" ", ""), "large")
        assert "x-understudy-failed-over" not in got.headers and not here.asked_small()


@pytest.mark.parametrize("listed", [None, ["small"]])
@pytest.mark.parametrize("after", [0, 4])
async def test_where_the_operators_own_limit_is_over_no_unproven_engine_answers_or_carries_on(
    tmp_path: Path, listed: list[str] | None, after: int
) -> None:
    async with two(tmp_path, limits=BRIEF, stand_ins=listed) as here:
        here.large.script = pausing(after)
        # A stream that nobody carries on ends as its engine's did: cut.
        with suppress(aiohttp.ClientPayloadError):
            got = await here.ask(stream=True)
            assert got.status == 504
        assert not here.asked_small()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("reachable", [True, False])
async def test_an_outage_is_told_as_it_is_beside_an_unproven_engine(
    tmp_path: Path, policy: str, reachable: bool
) -> None:
    url = None if reachable else f"http://127.0.0.1:{closed_port()}/v1"
    async with two(tmp_path, policy, large_url=url) as here:
        here.large.script = fails
        for _ in range(8):
            got = await here.ask(stream=True)
            assert got.status in (502, 503) and "message" in got.json["error"]
        assert not here.asked_small()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("reachable", [True, False])
async def test_an_unproven_engine_that_is_listed_answers_during_an_outage(
    tmp_path: Path, policy: str, reachable: bool
) -> None:
    url = None if reachable else f"http://127.0.0.1:{closed_port()}/v1"
    async with two(tmp_path, policy, large_url=url, stand_ins=["small"]) as here:
        here.large.script = fails
        for _ in range(8):
            got = await here.ask(stream=True)
            assert (got.text, got.headers["x-understudy-engine"]) == (SMALL_SAYS.replace(" ", ""), "small")
            assert got.headers["x-understudy-failed-over"].startswith("large; ")


@pytest.mark.parametrize("after", [0, 4])
async def test_two_engines_under_fixed_stand_in_for_each_other_in_all_of_it(
    tmp_path: Path, after: int
) -> None:
    async with two(tmp_path, "fixed", limits=BRIEF) as here:
        here.large.script = pausing(after)
        got = await here.ask(stream=True)
        assert got.text.endswith(SMALL_SAYS.replace(" ", "")) and got.text.startswith("The") is bool(after)
        here.large.script = fails
        assert (await here.ask()).headers["x-understudy-failed-over"] == "large; server"


async def test_under_fixed_those_that_are_not_listed_stand_in_for_nothing(tmp_path: Path) -> None:
    async with two(tmp_path, "fixed", stand_ins=[]) as here:
        here.large.script = fails
        assert (await here.ask()).status == 503 and not here.small.asked


@pytest.mark.parametrize("path", ["/completions", "/moderations"])
@pytest.mark.parametrize("listed", [None, ["small"]])
async def test_other_apis_of_the_model_keep_to_the_same_rule(
    tmp_path: Path, path: str, listed: list[str] | None
) -> None:
    async with two(tmp_path, stand_ins=listed) as here:
        here.large.script = fails

        async def small(request: web.Request, asked: Asked) -> web.StreamResponse:
            choice = {"index": 0, "text": "Yes.", "finish_reason": "stop"}
            return web.json_response({"id": "1", "object": "text_completion", "choices": [choice]})

        here.small.script = small
        got = await here.gate.post(path, {"model": "gpt-4o", "prompt": "?", "input": "?"})
        assert got.status == (200 if listed else 503)
        assert ("x-understudy-failed-over" in got.headers) is bool(listed)
