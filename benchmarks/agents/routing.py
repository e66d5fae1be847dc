"""The policies side by side: who answers each request of a trace, in its order."""

from __future__ import annotations

import random
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from benchmarks.agents.providers import LARGE, SMALL, Clock, engines
from benchmarks.agents.traces import Request
from engines.chat import ChatRequest, Usage
from engines.engine import Engine as AnyEngine
from engines.engine import Price
from router.choosing import chooser
from router.choosing.bandit import Estimate, Scene
from router.choosing.chooser import Chooser
from router.choosing.exploration_budget import ExplorationBudget
from router.choosing.load import LoadKnobs
from router.plan import Ask, Candidate, Plan, Policy
from router.policies.in_context import InContext, Knobs, LearnedModels
from router.policies.in_conversation import InConversation
from router.turns.conversations import Conversations
from store.records import Vector
from understudy.settings.knobs import knobs_of
from understudy.settings.memory import MemorySettings
from understudy.settings.models import FewShotSettings, InContextSettings, ModelAdvanced

TENANT = "t"
THRESHOLDS = (0.85, 0.88, 0.9, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98)
ROUTELLM = "RouteLLM-like, "


class Router(Protocol):
    """Says who answers."""

    async def engine(self, request: Request, asked: ChatRequest) -> str: ...

    def answered(self, engine: str, asked: ChatRequest, usage: Usage) -> None: ...


@dataclass(slots=True)
class Always:
    """One engine."""

    name: str

    async def engine(self, request: Request, asked: ChatRequest) -> str:
        return self.name

    def answered(self, engine: str, asked: ChatRequest, usage: Usage) -> None: ...


@dataclass(slots=True)
class ByThreshold:
    """RouteLLM's rule: each prompt by itself, the small engine where its expected quality reaches the threshold."""

    threshold: float

    async def engine(self, request: Request, asked: ChatRequest) -> str:
        return SMALL if request.expected >= self.threshold else LARGE

    def answered(self, engine: str, asked: ChatRequest, usage: Usage) -> None: ...


class _Given:
    """What is known of a request: what embeddings and outcomes would tell is given by the trace, with its error."""

    learned = 1000
    version = "given"

    def __init__(self) -> None:
        self.expected = 1.0

    async def embed(self, text: str) -> Vector:
        return np.full(4, 0.5, np.float32)

    def nearest(self, *_: object) -> list[Candidate]:
        return []

    def size(self, tenant: str) -> int:
        return 0

    def estimate(self, scene: Scene) -> Estimate:
        qualities = tuple(1.0 if one.engine == LARGE else self.expected for one in scene.options)
        return Estimate(qualities, tuple(0.0 if one.engine == LARGE else 0.03 for one in scene.options))


class Routed:
    """The product's policy; `knows_turns`: with what it knows of conversations, else as if every turn stood alone."""

    def __init__(
        self, prices: dict[str, Price], clock: Clock, threads: Executor, seed: int, *, knows_turns: bool
    ) -> None:
        self._given = given = _Given()
        advanced = ModelAdvanced(with_tools="route")
        known = cast("list[AnyEngine]", engines(prices))
        inner = InContext(
            known,
            given,  # type: ignore[arg-type]
            given,  # type: ignore[arg-type]
            lambda tenant: LearnedModels(bandit=given, version="given"),
            Chooser(chooser.Knobs(least_probability=0.01, load=LoadKnobs(advanced.load_strength))),
            ExplorationBudget(0.0),
            threads,
            knobs_of(
                Knobs,
                InContextSettings(),
                FewShotSettings(),
                advanced,
                MemorySettings().examples,
                follow_ups=True,
                deadline_s=60.0,
                counts=None,
                least_probability=0.01,
                max_loss=None,
            ),
            rng=random.Random(seed),
        )
        self._policy: Policy = inner
        self._conversations: Conversations | None = None
        if knows_turns:
            self._conversations = Conversations({one.info.name: one for one in known}, clock=clock)
            self._policy = InConversation(inner, self._conversations, (SMALL, LARGE))
        self._plan: Plan | None = None

    async def engine(self, request: Request, asked: ChatRequest) -> str:
        self._given.expected = request.expected
        self._plan = await self._policy.decide(Ask(asked, TENANT))
        assert not self._plan.bypassed, self._plan.bypassed
        return self._plan.attempts[0].engine

    def answered(self, engine: str, asked: ChatRequest, usage: Usage) -> None:
        if self._conversations is not None and self._plan is not None and self._plan.turn is not None:
            self._conversations.answered(self._plan.turn, engine, asked, TENANT, usage)


def routers(prices: dict[str, Price], clock: Clock, threads: Executor, seed: int) -> dict[str, Router]:
    """All of them but the oracle, by name."""
    return {
        "always large": Always(LARGE),
        "always small": Always(SMALL),
        **{f"{ROUTELLM}{threshold}": ByThreshold(threshold) for threshold in THRESHOLDS},
        "without cache prices": Routed(prices, clock, threads, seed, knows_turns=False),
        "product": Routed(prices, clock, threads, seed, knows_turns=True),
    }
