"""Judging over real sockets: what is found is kept, its cost booked apart, its troubles nobody's, and the floor holds."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from learning.outcomes.judging import Judging
from learning.training.artifact_follower import ArtifactFollower
from router.choosing.bandit_vw import BanditSettings, VowpalBandit
from router.shedding import Shedding
from simulation.stream import Stream
from simulation.world import World
from store import Store
from store.learned.quality_floors import FloorRow
from tests.flow.line import Asked, Line, completion, line, upstream
from tests.patience import PATIENCE_S
from understudy.settings.file import parse_config
from understudy.setup.learner import Learning, learning

FACTS = 300
SMALL, LARGE = (
    {"input_usd_per_mtok": 0, "output_usd_per_mtok": 1},
    {"input_usd_per_mtok": 0, "output_usd_per_mtok": 10},
)
DEAR = {"input_usd_per_mtok": 1e4, "output_usd_per_mtok": 1e4}
"""A judge whose cost would show wherever it was booked by mistake."""
EVERYTHING = {"share_offloaded": 1.0, "max_usd_per_day": 1e9}
UNUSED = re.compile(r'understudy_judging_samples_total\{result="(unanswered|unread|no_judge)"\}')


def simulated(role: str, price: dict[str, float]) -> dict[str, Any]:
    return {"kind": "simulated", "role": role, "ttft_ms": 0, "token_ms": 0, "facts": FACTS, "price": price}


def store_of(gate: Line) -> Store:
    assert gate.gateway.memory is not None
    return gate.gateway.memory.store


def judging_of(gate: Line) -> Judging:
    (judging,) = gate.gateway.parts.owned(Judging)
    return judging


async def metrics_of(gate: Line) -> dict[str, float]:
    """Series and their values."""
    async with gate.session.get(gate.url.removesuffix("/v1") + "/metrics") as response:
        lines = (await response.text()).splitlines()
    return {
        name: float(value) for name, _, value in (each.rpartition(" ") for each in lines if each[:1] != "#")
    }


def configured(data: Path, engines: dict[str, Any], judging: dict[str, Any], **model: Any) -> dict[str, Any]:
    return {
        "engines": engines,
        "models": {
            "gpt-4o": {
                "engines": ["small", "large"],
                "policy": "in_context",
                "few_shot": {"theta": 0.7, "m": 1},
                **model,
            }
        },
        "memory": {
            "data_dir": str(data),
            "exact": {"enabled": False},
        },
        "judging": {"engine": "judge"}
        | EVERYTHING
        | judging
        | {"advanced": {"samples": 1, "share_reference": 1.0} | judging.get("advanced", {})},
        "learning": {"advanced": {"starting_requests": 10**9}},
    }


async def test_what_a_judge_finds_is_written_and_what_it_costs_is_booked_apart(tmp_path: Path) -> None:
    engines = {
        "small": simulated("understudy", SMALL),
        "large": simulated("lead", LARGE),
        "judge": simulated("judge", DEAR),
    }
    async with line(configured(tmp_path, engines, {})) as gate:
        decisions = []
        for ask in Stream(World(7, FACTS), 12, seed=3):
            got = await gate.chat(list(ask.messages))
            assert got.status == 200
            decisions.append(got.headers["x-understudy-decision-id"])
        async with asyncio.timeout(PATIENCE_S):
            await judging_of(gate).join()
        await gate.settled()
        store, series = store_of(gate), await metrics_of(gate)
        found = [o for id in decisions for o in store.outcomes.of("default", id)]
        choices = [store.decisions.choices.get("default", id) for id in decisions]
    assert found and {o.source for o in found} == {"judge"}
    assert {o.engine for o in found} <= {"small", "large"}, "nobody takes the judge's words for an answer"
    served = {o.request_id for o in found if o.served}
    assert served <= set(decisions)
    booked = sum(v for name, v in series.items() if name.startswith("understudy_judging_cost_usd_total"))
    assert 0 < sum(o.cost_usd for o in found) < booked, "the exam of the judge is paid, and of no outcome"
    assert sum(o.cost_usd for o in found) > 1
    assert sum(c.cost_usd for c in choices if c is not None) < 0.1, "what clients' answers cost is without it"
    assert all(v < 0.1 for name, v in series.items() if name.startswith("understudy_cost_usd"))


@pytest.mark.parametrize("trouble", ["gone", "refuses", "hangs", "babbles"])
async def test_a_judge_in_trouble_fails_and_delays_nobody(tmp_path: Path, trouble: str) -> None:
    never = asyncio.Event()

    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        if trouble == "refuses":
            return web.json_response(
                {"error": {"message": "no", "type": "x", "param": None, "code": None}}, status=500
            )
        if trouble == "hangs":
            await never.wait()
        return web.json_response(completion("I would rather talk about the weather."))

    async with upstream() as judge:
        judge.script = script
        engines = {
            "small": simulated("understudy", SMALL),
            "large": simulated("lead", LARGE),
            "judge": {
                "base_url": "http://127.0.0.1:1/v1" if trouble == "gone" else judge.url,
                "price": DEAR,
                "advanced": {"attempts": 1},
            },
        }
        try:
            async with line(
                configured(tmp_path, engines, {"advanced": {"samples": 1, "max_in_flight": 1}})
            ) as gate:
                for ask in Stream(World(7, FACTS), 6, seed=3):
                    assert (await gate.chat(list(ask.messages))).status == 200
                series = await metrics_of(gate)
                async with asyncio.timeout(PATIENCE_S):
                    while trouble != "hangs" and not any(UNUSED.match(name) for name in series):
                        await asyncio.sleep(0.05)
                        series = await metrics_of(gate)
                assert not store_of(gate).outcomes.after(0)
                assert series.get('understudy_judging_samples_total{result="judged"}', 0) == 0
                # The gateway closes although the judge never answers.
        finally:
            never.set()


@dataclass
class Promise:
    """A gateway with a quality floor, whose judge finds the small engine as good as `deficit` says."""

    gate: Line
    parts: Learning
    small_is_bad: bool = False
    offloaded: list[bool] = field(default_factory=list)

    async def judge(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        told = json.dumps(asked.json["messages"])
        code = re.search(r"SCORE ([0-9a-f]{16})", told)
        assert code is not None
        small, large = told.find("From the small one."), told.find("From the large one.")
        if small < 0:
            # A known pair of its exam: an answer of the large one beside itself, or beside another request's.
            first = bool(re.search(r"FIRST ANSWER \w+>>>\\nFrom the large one", told))
            score = 0 if told.count("From the large one.") > 1 else 3 if first else -3
        else:
            score = (-3 if small < large else 3) if self.small_is_bad else 0
        return web.json_response(completion(f"SCORE {code[1]}: {score}"))

    async def turn(self, count: int = 25) -> float:
        """So many requests, judged; then the learner brings the account up to date. The share of them offloaded."""

        async def one(number: int) -> bool:
            got = await self.gate.chat(f"Question {number}: what is there to know about river no. {number}?")
            assert got.status == 200
            return got.headers["x-understudy-engine"] == "small"

        known = len(self.offloaded)
        self.offloaded += await asyncio.gather(*(one(known + n) for n in range(count)))
        async with asyncio.timeout(PATIENCE_S):
            await judging_of(self.gate).join()
        await self.gate.settled()
        await asyncio.to_thread(self.parts.floors)
        (follower,) = self.gate.gateway.parts.owned(ArtifactFollower)
        async with asyncio.timeout(PATIENCE_S):
            while follower.of("default", "gpt-4o").offload_cap != self.row().cap:
                await asyncio.sleep(0.02)
        return sum(self.offloaded[known:]) / count

    def row(self) -> FloorRow:
        row = store_of(self.gate).quality_floors.get("default", "gpt-4o")
        assert row is not None
        return row

    async def shown(self) -> float:
        return (await metrics_of(self.gate))['understudy_offload_cap{model="gpt-4o"}']


@asynccontextmanager
async def promised(data: Path, max_loss: float) -> AsyncIterator[Promise]:
    async with upstream() as small, upstream() as large, upstream() as judge:
        small.says, large.says = "From the small one.", "From the large one."
        engines = {
            "small": {"base_url": small.url, "price": SMALL},
            "large": {"base_url": large.url, "price": LARGE},
            "judge": {"base_url": judge.url},
        }
        # At this dial only the price counts: without a floor all of it would go to the small engine.
        wanted = {"preference": 0.0, "max_examples": 0}
        judging = {"advanced": {"share_reference": 0.0, "others": 0}}
        floor = {"proof": "floor", "max_loss": max_loss}
        config = configured(data, engines, judging, in_context=wanted, advanced={"epsilon": 0}, **floor)
        async with line(config) as gate:
            untaught = VowpalBandit(BanditSettings()).save()
            publish = store_of(gate).artifacts.publish
            await asyncio.to_thread(publish, "bandit", "default", "gpt-4o", untaught, metrics={})
            (follower,) = gate.gateway.parts.owned(ArtifactFollower)
            assert await asyncio.to_thread(follower.ready, "default", "gpt-4o")
            with learning(parse_config(config), lambda: False) as parts:
                made = Promise(gate, parts)
                judge.script = made.judge
                yield made


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No comparison is shed: how busy the machine of the tests is decides nothing."""
    monkeypatch.setattr(Shedding, "look", lambda *_, **__: None)


@pytest.mark.slow
@pytest.mark.usefixtures("unloaded")
async def test_a_quality_floor_keeps_a_bad_engines_share_at_what_was_promised(tmp_path: Path) -> None:
    async with promised(tmp_path, max_loss=0.2) as here:
        here.small_is_bad = True
        for _ in range(8):
            await here.turn()
            assert here.row().cap < 0.3, "nothing is proven of it"
        share = sum(here.offloaded) / len(here.offloaded)
        assert await here.shown() == here.row().cap
        series = await metrics_of(here.gate)
    assert 0.02 < share < 0.35
    assert series['understudy_choices_total{how="floored",model="gpt-4o"}'] > 100


@pytest.mark.slow
@pytest.mark.usefixtures("unloaded")
async def test_a_good_engine_earns_its_share_and_loses_it_again_when_it_turns_bad(tmp_path: Path) -> None:
    async with promised(tmp_path, max_loss=0.4) as here:
        assert await here.turn() < 0.8, "until it has proven itself"
        for _ in range(10):
            share = await here.turn()
            if share > 0.75 and here.row().cap > 0.75:
                break
        assert share > 0.75 and here.row().cap > 0.75, (share, here.row())
        assert await here.shown() == here.row().cap
        here.small_is_bad = True
        for _ in range(20):
            share = await here.turn()
            if share < 0.6 and here.row().cap < 0.6:
                break
        assert share < 0.6 and here.row().cap < 0.6, (share, here.row())
