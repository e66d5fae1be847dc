"""An engine that goes down is known to be, in /readyz and /metrics, before a client finds out; and known when it is back."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from engines.servers.prober import Pace, Prober
from tests.flow.line import Asked, Line, Upstream, completion, line, upstream
from tests.patience import PATIENCE_S

ENGINE = {"kind": "openai", "advanced": {"attempts": 1}}


async def unwell(request: web.Request, asked: Asked) -> web.StreamResponse:
    return web.json_response({"error": {"message": "out of memory"}}, status=503)


def quick(made: Line) -> None:
    """Probes come after a moment."""
    (prober,) = made.gateway.parts.owned(Prober)
    prober._pace = Pace(every_s=0.05, down_s=0.05, down_most_s=0.1, look_s=0.01)


async def got(made: Line, path: str) -> tuple[int, str]:
    async with made.session.get(made.url.removesuffix("/v1") + path) as response:
        return response.status, await response.text()


async def become(made: Line, engine: str, state: str) -> None:
    """Wait until /metrics tells so."""
    series = f'understudy_engine_state{{engine="{engine}",replica="",state="{state}"}} 1.0'
    async with asyncio.timeout(PATIENCE_S):
        while series not in (await got(made, "/metrics"))[1]:
            await asyncio.sleep(0.01)


def chats(behind: Upstream) -> int:
    return sum(asked.path == "/v1/chat/completions" for asked in behind.asked)


async def test_an_engine_is_known_to_be_down_and_back_without_a_client_that_fails() -> None:
    async with upstream() as small, upstream() as large:
        engines: dict[str, Any] = {
            "small": ENGINE | {"base_url": small.url, "model": "s"},
            "large": ENGINE | {"base_url": large.url, "model": "l"},
        }
        models = {"gpt-4o": {"engines": ["small", "large"]}, "mini": {"engines": ["small"]}}
        async with line({"engines": engines, "models": models}) as made:
            quick(made)
            await become(made, "large", "up")
            large.script = unwell
            await become(made, "large", "down")
            answer = await made.chat("Q1")
            assert (answer.status, answer.headers["x-understudy-engine"]) == (200, "small")
            assert chats(large) == 0, "no request was spent on it"
            assert (await got(made, "/readyz"))[0] == 200, "another engine answers"
            small.script = unwell
            await become(made, "small", "down")
            status, said = await got(made, "/readyz")
            assert status == 503 and "the engine 'small' is down" in said
            large.script = None
            await become(made, "large", "unknown")
            status, said = await got(made, "/readyz")
            assert status == 200 and "degraded" in said, "one of two models can be answered"
            answer = await made.chat("Q2")
            assert (answer.status, answer.headers["x-understudy-engine"]) == (200, "large")
            await become(made, "large", "up")


async def test_where_the_upstream_answers_all_else_the_gateway_stays_ready() -> None:
    async with upstream() as behind, upstream() as small:
        small.script = unwell
        config = {
            "upstream": {"base_url": behind.url},
            "engines": {"small": ENGINE | {"base_url": small.url}},
            "models": {"mini": {"engines": ["small"]}},
        }
        async with line(config) as made:
            quick(made)
            await become(made, "small", "down")
            status, said = await got(made, "/readyz")
            assert status == 200 and "the engine 'small' is down" in said


async def test_an_engine_that_was_only_overloaded_is_tried_as_soon_as_it_has_answered_what_it_took() -> None:
    room, let_go = asyncio.Semaphore(3), asyncio.Event()

    async def overloaded(request: web.Request, asked: Asked) -> web.StreamResponse:
        if room.locked():
            return await unwell(request, asked)
        async with room:
            await let_go.wait()
            return web.json_response(completion("4"))

    async with upstream() as large:
        large.script = overloaded
        engines = {"large": ENGINE | {"base_url": large.url}}
        async with line({"engines": engines, "models": {"gpt-4o": {"engines": ["large"]}}}) as made:
            body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Q"}]}

            async def status() -> int:
                async with made.session.post(made.url + "/chat/completions", json=body) as response:
                    await response.read()
                    return response.status

            taken = [asyncio.create_task(status()) for _ in range(3)]
            async with asyncio.timeout(PATIENCE_S):
                while not room.locked():
                    await asyncio.sleep(0.01)
            assert {await status() for _ in range(20)} == {503}
            assert chats(large) < 23, "its breaker is open"
            let_go.set()
            assert await asyncio.gather(*taken) == [200] * 3
            await made.settled()
            assert await status() == 200
