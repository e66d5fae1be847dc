"""A cascade over real sockets: once agreement is proven the small answer is served where engines agree, else the large."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.booking import COST
from learning.guarantee.proof import ProofFollower
from learning.outcomes.judging import Judging
from store.records import OutcomeRecord
from tests.flow.line import Asked, Got, Line, Upstream, completion, line, upstream

CASCADE = "small+second"
PRICES = {"small": 1.0, "second": 2.0, "large": 10.0}
"""US dollars per million tokens; an answer has ten."""


@dataclass
class Site:
    """A gateway with three engines, all of which answer by script."""

    gate: Line
    engines: dict[str, Upstream]
    number: int = 0
    calls: dict[str, int] = field(default_factory=dict)

    async def ask(self, **fields: Any) -> Got:
        """Ask something new; `calls` is who was asked then."""
        before = {name: len(one.asked) for name, one in self.engines.items()}
        self.number += 1
        got = await self.gate.chat(f"Which label has the letter number {self.number}?", **fields)
        self.calls = {name: len(one.asked) - before[name] for name, one in self.engines.items()}
        return got

    async def prove(self) -> None:
        """Note that agreement was right on many requests; nothing else is compared from now on."""
        (judging,) = self.gate.gateway.parts.owned(Judging)
        await judging.aclose()
        memory = self.gate.gateway.memory
        assert memory is not None
        for _ in range(60):
            got = await self.ask()
            outcome = OutcomeRecord(
                got.headers["x-understudy-decision-id"],
                "default",
                0.0,
                "judge",
                f"judge/{CASCADE}/without",
                CASCADE,
                (),
                served=got.headers["x-understudy-engine"] == "small",
                quality=1.0,
            )
            await asyncio.to_thread(memory.store.outcomes.note(outcome).result, 5)
        (follower,) = self.gate.gateway.parts.owned(ProofFollower)
        assert await asyncio.to_thread(follower.caught_up)


@asynccontextmanager
async def site(data: Path, wait_s: float = 30.0, max_loss: float = 0.3) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        engines = {name: await stack.enter_async_context(upstream()) for name in PRICES}
        for one in engines.values():
            one.says = "refund"
        config = {
            "engines": {
                name: {
                    "base_url": one.url,
                    "api_key": "none",
                    "price": {"input_usd_per_mtok": PRICES[name], "output_usd_per_mtok": PRICES[name]},
                    "advanced": {"attempts": 1},
                }
                for name, one in engines.items()
            },
            "models": {
                "gpt-4o": {
                    "cascade": ["small", "second", "large"],
                    "policy": "few_shot",
                    "few_shot": {"theta": 1.0},
                    "proof": "on",
                    "max_loss": max_loss,
                    "advanced": {"cascade_wait_s": wait_s},
                }
            },
            "memory": {"data_dir": str(data)},
        }
        gate = await stack.enter_async_context(line(config))
        yield Site(gate, engines)


def by(got: Got) -> tuple[int, str, str]:
    headers = got.headers
    return got.status, headers["x-understudy-engine"], headers.get("x-understudy-reason", "")


async def test_the_small_answer_is_served_where_engines_agree_once_that_is_proven(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        first = await here.ask()
        assert by(first) == (200, "large", "shadow")
        await here.prove()
        got = await here.ask()
        assert by(got) == (200, "small", "agreed") and got.text == "refund"
        assert here.calls == {"small": 1, "second": 1, "large": 0}
        assert float(got.headers[COST]) == pytest.approx(10 * 3 / 1e6)
        streamed = await here.ask(stream=True)
        assert by(streamed) == (200, "small", "agreed") and streamed.text == "refund"

        here.engines["second"].says = "order"
        got = await here.ask()
        assert by(got) == (200, "large", "disagreed")
        assert here.calls == {"small": 1, "second": 1, "large": 1}
        assert float(got.headers[COST]) == pytest.approx(10 * 13 / 1e6)
        assert "x-understudy-failed-over" not in got.headers


async def test_where_a_small_engine_is_down_the_large_one_answers(tmp_path: Path) -> None:
    async def down(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response({"error": {"message": "down"}}, status=503)

    async with site(tmp_path) as here:
        await here.prove()
        here.engines["second"].script = down
        got = await here.ask()
        assert by(got)[:2] == (200, "large") and CASCADE in got.headers["x-understudy-failed-over"]


async def test_where_a_small_engine_is_slow_the_large_one_answers(tmp_path: Path) -> None:
    over = asyncio.Event()

    async def slow(request: web.Request, asked: Asked) -> web.StreamResponse:
        await over.wait()
        return web.json_response(completion("refund"))

    async with site(tmp_path, wait_s=1.0) as here:
        await here.prove()
        here.engines["second"].script = slow
        got = await here.ask()
        over.set()
        assert by(got)[:2] == (200, "large")


async def test_agreement_is_compared_while_the_large_engine_answers(tmp_path: Path) -> None:
    async with site(tmp_path, max_loss=0.05) as here:
        store = here.gate.gateway.memory
        assert store is not None
        (judging,) = here.gate.gateway.parts.owned(Judging)

        def compared() -> int:
            rows = store.store.outcomes.after(0, 1000, model="gpt-4o")
            return sum(row.engine == CASCADE and row.source == "judge" for row in rows)

        for _ in range(40):
            assert by(await here.ask())[1] == "large"
            await judging.join()
            if await asyncio.to_thread(compared):
                return
        raise AssertionError("agreement was never compared")
