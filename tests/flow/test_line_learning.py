"""The loop, over real sockets: what users say of the small engine moves traffic to it and away from it, and so does load.

Upstreams answer by script, users score by script; the gateway, the store, the learner and the bandit are the real ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from learning.training.artifact_follower import ArtifactFollower
from learning.training.learner import RouterLearner
from store.records import ArtifactRecord
from tests.flow.line import Asked, Got, Line, Upstream, completion, line, upstream
from understudy.settings.file import parse_config
from understudy.setup.learner import learning

TOPICS = ("rivers", "bridges", "operas", "metals", "birds", "kings", "engines", "teas")


Scores = Callable[[str], float]


@dataclass
class Loop:
    """A gateway that learns, with its learner at hand."""

    gate: Line
    small: Upstream
    large: Upstream
    learner: RouterLearner
    asked: int = 0
    published: list[ArtifactRecord] = field(default_factory=list)

    async def ask(self, **headers: str) -> Got:
        self.asked += 1
        number = self.asked
        question = (
            f"Question {number}: what is there to know about {TOPICS[number % len(TOPICS)]} no. {number}?"
        )
        named = {f"x-understudy-{name}": value for name, value in headers.items()}
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": question}]}
        got = await self._post("/chat/completions", body, named)
        assert got.status == 200, got.body
        return got

    async def score(self, got: Got, score: float) -> None:
        told = await self._post(
            "/feedback", {"decision_id": got.headers["x-understudy-decision-id"], "score": score}, {}
        )
        assert told.status in (200, 201), told.body

    async def used(self, count: int, scores: Scores | None = None, at_once: int = 8) -> float:
        """So many requests, each answer scored by its engine; gives the share of them that was offloaded."""
        waiting = asyncio.Semaphore(at_once)

        async def one() -> bool:
            async with waiting:
                got = await self.ask()
                engine = got.headers["x-understudy-engine"]
                if scores is not None:
                    await self.score(got, scores(engine))
                return engine == "small"

        offloaded = await asyncio.gather(*(one() for _ in range(count)))
        await self.gate.settled()
        return sum(offloaded) / count

    async def until(self, scores: Scores, done: Callable[[float], bool], most_turns: int = 12) -> bool:
        """Use it and learn from that, turn by turn, until the share is as it should be."""
        for _ in range(most_turns):
            share = await self.used(40, scores)
            if done(share):
                return True
            await self.learn()
        return False

    async def metrics(self) -> str:
        """What an operator sees."""
        await self.gate.settled()
        async with self.gate.session.get(self.gate.url.removesuffix("/v1") + "/metrics") as response:
            return await response.text()

    async def learn(self) -> list[ArtifactRecord]:
        """One turn of the learner, and until the worker decides with what came of it."""
        made = await asyncio.to_thread(self.learner.step)
        self.published += made
        await self.ready()
        return made

    async def ready(self) -> None:
        """Until the worker decides with what is published."""
        (follower,) = self.gate.gateway.parts.owned(ArtifactFollower)
        assert await asyncio.to_thread(follower.ready, "default", "gpt-4o")

    async def _post(self, path: str, body: Any, headers: dict[str, str]) -> Got:
        # Without waiting for what is remembered, as Line.post does: feedback waits for it by itself.
        async with self.gate.session.post(self.gate.url + path, json=body, headers=headers) as response:
            return Got(response.status, response.headers.copy(), await response.read())


@asynccontextmanager
async def loop(
    data: Path, *, large: dict[str, Any] | None = None, max_examples: int = 8, **advanced: Any
) -> AsyncIterator[Loop]:
    async with upstream() as small_one, upstream() as large_one:
        small_one.says, large_one.says = "From the small one.", "From the large one."
        config = {
            "engines": {
                "small": {
                    "base_url": small_one.url,
                    "price": {"input_usd_per_mtok": 0.1, "output_usd_per_mtok": 0.4},
                },
                "large": {
                    "base_url": large_one.url,
                    "price": {"input_usd_per_mtok": 2.5, "output_usd_per_mtok": 10},
                }
                | (large or {}),
            },
            "models": {
                "gpt-4o": {
                    "engines": ["small", "large"],
                    "policy": "in_context",
                    "few_shot": {"theta": 0.9, "m": 1},
                    "in_context": {"max_examples": max_examples},
                    "advanced": {"outcomes_needed": 40} | advanced,
                }
            },
            "memory": {
                "data_dir": str(data),
                "exact": {"enabled": False},
            },
            "feedback": {"advanced": {"per_minute": 10_000}},
            "log": {"requests": False},
        }
        with pytest.MonkeyPatch.context() as patch:
            # What is older than the last 160 outcomes is forgotten: this world changes in seconds, not in weeks.
            patch.setattr("understudy.setup.learner.MOST_OUTCOMES", 160)
            async with line(config) as gate:
                with learning(parse_config(config), lambda: False) as parts:
                    yield Loop(gate, small_one, large_one, parts.learner)


def users(small: float) -> Scores:
    return lambda engine: small if engine == "small" else 1.0


@pytest.mark.slow
async def test_the_share_of_offloaded_traffic_moves_with_what_users_say_and_back_after_drift(
    tmp_path: Path,
) -> None:
    async with loop(tmp_path, epsilon=0.5, key_share=1.0) as here:
        # Hardly a question is familiar enough for the rule that decides at first; half are explored, by chance.
        assert await here.used(40, users(small=1.0)) <= 0.6
        assert await here.until(users(small=1.0), lambda share: share > 0.6), "it is as good, and cheaper"
        assert await here.until(users(small=0.1), lambda share: share < 0.3), "it has become bad"
        assert await here.until(users(small=1.0), lambda share: share > 0.6), "it is good again"
        assert {record.kind for record in here.published} == {"bandit"}
        metrics = await here.metrics()
    assert 'understudy_choices_total{how="explored",model="gpt-4o"}' in metrics
    assert "understudy_artifacts_broken_total{" not in metrics


@pytest.mark.slow
async def test_under_a_load_step_the_share_rises_and_falls_again(tmp_path: Path) -> None:
    still = {"epsilon": 0, "key_share": 0}
    load = {"load_strength": 1.0}
    # Without examples there are two ways to answer, and one of them is a little worse.
    async with loop(tmp_path, epsilon=0.5, key_share=1.0, max_examples=0) as here:
        await here.used(100, users(small=0.75))
        await here.learn()
    # What was learnt outlives the process. From here on nothing is learnt: what moves is moved by load alone.
    async with loop(tmp_path, large={"max_in_flight": 4}, max_examples=0, **still, **load) as here:
        await here.ready()
        here.large.script = slowly
        choices = here.gate.gateway.memory.store.decisions.choices
        before = choices.after(0, 1000)[-1][0]
        idle = await here.used(30, at_once=1)
        pressed = await here.used(120, at_once=24)
        later = await here.used(30, at_once=1)
        metrics = await here.metrics()
        shifted = [c for _, c in choices.after(before, 1000) if c.chosen != c.chosen_without_load]
    assert idle < 0.35 and later < 0.35, (idle, pressed, later)
    assert pressed > max(idle, later) + 0.25, (idle, pressed, later)
    # The log keeps what it would have been, and what an operator sees agrees with the log.
    assert shifted and all(
        c.actions[c.chosen_without_load]["engine"] == "large" for c in shifted if c.engine == "small"
    )
    assert f'understudy_load_shifted_total{{model="gpt-4o"}} {float(len(shifted))}' in metrics


async def slowly(request: web.Request, asked: Asked) -> web.StreamResponse:
    await asyncio.sleep(0.1)
    return web.json_response(completion("From the large one."))
