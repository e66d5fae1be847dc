"""A stream of requests through the real policy, keeper and quality floor, with answers of which everything is known."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from engines.engine import EngineInfo, EngineLoad, Price
from gateway.keepers.choice import ChoiceKeeper
from router.choosing.bandit import Estimate, Scene
from router.choosing.chooser import Chooser
from router.choosing.exploration_budget import ExplorationBudget
from router.guarantee.floor import FloorSettings, QualityFloor
from router.plan import Ask, Candidate
from router.policies.in_context import InContext, LearnedModels
from store.decisions.choices import Choices
from store.decisions.outcomes import Experience
from store.records import ChoiceRecord, Example, OutcomeRecord, Vector
from tests.finished import chat_request, finished
from tests.knobs import chooser_knobs, in_context_knobs

SMALL, LARGE = "small", "large"
CHOOSER = chooser_knobs(least_probability=0.02)
TOPICS = 6
JUDGED = 0.15
"""Share of offloaded answers that is judged."""
PACE_S = 0.5
_LATE_S = 4.0
_COSTS = {SMALL: 0.0003, LARGE: 0.004}


@dataclass
class _Engine:
    info: EngineInfo
    now: EngineLoad = field(default_factory=lambda: EngineLoad(capacity=8))

    def load(self) -> EngineLoad:
        return self.now


class _Collected:
    """Stands where the store's choices are."""

    def __init__(self) -> None:
        self.records: list[ChoiceRecord] = []

    def record(self, record: ChoiceRecord) -> None:
        self.records.append(record)


@dataclass
class _Bandit:
    """Expects of every topic what is nearly right, the more nearly the more it has learnt."""

    qualities: np.ndarray
    """[topics, 2]: without examples, with."""
    learned: int = 400
    version: str = "bandit-1"

    def estimate(self, scene: Scene) -> Estimate:
        assert scene.vector is not None
        topic = int(np.argmax(scene.vector[:TOPICS]))
        found = [
            1.0 if option.engine == LARGE else float(self.qualities[topic, int(option.with_examples)])
            for option in scene.options
        ]
        return Estimate(tuple(found), tuple(0.0 if q == 1.0 else 0.08 for q in found), 0.02)


@dataclass
class _World:
    """What is asked, and how good the small engine is at it."""

    seed: int
    hard: float
    """How much worse than the reference the small engine is, on average over topics."""

    def __post_init__(self) -> None:
        rng = np.random.default_rng((self.seed, 1))
        alone = np.clip(1.0 - self.hard * 2.5 * rng.random(TOPICS), 0.05, 0.99)
        self.truth = np.stack([alone, np.clip(alone + 0.4 * (1 - alone), 0.05, 0.995)], axis=1)
        self.rng = rng
        self.bandit = _Bandit(np.clip(self.truth + rng.normal(0, 0.04, self.truth.shape), 0.0, 1.0))
        self.shares = rng.dirichlet(np.full(TOPICS, 4.0))
        self.topic = 0

    async def embed(self, text: str) -> Vector:
        vector = np.zeros(TOPICS + 2, np.float32)
        vector[self.topic] = 1.0
        vector += self.rng.normal(0, 0.05, TOPICS + 2).astype(np.float32)
        return cast(Vector, vector / np.linalg.norm(vector))

    def nearest(self, tenant: str, scope: str, *_: object) -> list[Candidate]:
        known = self.rng.random() < 0.7
        example = Example(1, 1, tenant, scope, "question?", "answer.", LARGE, 0.0)
        return [Candidate(example, 0.86 + 0.1 * float(self.rng.random()))] if known else []

    def quality(self, engine: str, with_examples: bool) -> float:
        if engine == LARGE:
            return 1.0
        return float(self.rng.random() < self.truth[self.topic, int(with_examples)])


@dataclass(frozen=True)
class Happened:
    """The log that a stream left, and what really happened in it."""

    experiences: Sequence[Experience]
    offloaded: float
    quality: float
    cost_usd: float


def streamed(
    seed: int,
    *,
    tenant: str,
    requests: int,
    hard: float,
    preference: float = 0.5,
    promise: FloorSettings | None = None,
) -> Happened:
    """Requests of a tenant, one after the other."""
    with ThreadPoolExecutor(1) as threads:
        return asyncio.run(_streamed(seed, tenant, requests, hard, preference, promise, threads))


async def _streamed(
    seed: int,
    tenant: str,
    requests: int,
    hard: float,
    preference: float,
    promise: FloorSettings | None,
    threads: ThreadPoolExecutor,
) -> Happened:
    world = _World(seed, hard)
    account = QualityFloor(promise) if promise is not None else None
    models = LearnedModels(bandit=world.bandit, version="bandit-1")
    now = [models]
    policy = InContext(
        [
            _Engine(EngineInfo(SMALL, price=Price(0.1, 0.4))),
            _Engine(EngineInfo(LARGE, price=Price(2.5, 10.0))),
        ],  # type: ignore[list-item]
        world,  # type: ignore[arg-type]
        world,  # type: ignore[arg-type]
        lambda tenant: now[0],
        Chooser(CHOOSER),
        ExplorationBudget(1.0),
        threads,
        in_context_knobs(
            m=1, preference=preference, deadline_s=30.0, max_loss=promise.x if promise is not None else None
        ),
        rng=random.Random(seed),
    )
    collected = _Collected()
    keeper = ChoiceKeeper(cast(Choices, collected), {"m": (SMALL, LARGE)}, embedding_version="v1")
    qualities, outcomes, coming = [], {}, []
    for number in range(requests):
        at_s = 1000.0 + PACE_S * number
        if account is not None:
            due = [each for each in coming if each[0] <= at_s]
            coming = [each for each in coming if each[0] > at_s]
            for when_s, loss in due:
                account.note(loss, promise.judged_share if promise is not None else 1.0, when_s)
            now[0] = replace(models, offload_cap=account.offload_cap())
        world.topic = int(world.rng.choice(TOPICS, p=world.shares))
        plan = await policy.decide(Ask(chat_request(), tenant))
        attempt = plan.attempts[0]
        cost = (
            _COSTS[attempt.engine] * float(world.rng.lognormal(0.0, 0.4)) * (1.3 if attempt.examples else 1.0)
        )
        done = finished(
            plan=plan,
            attempt=attempt,
            tenant=tenant,
            id=f"r{number}",
            started_at_s=at_s,
            cost_usd=cost,
            ended_at=101.0,
        )
        for _ in keeper.keep(done):
            pass
        quality = world.quality(attempt.engine, bool(attempt.examples))
        qualities.append(quality)
        if account is not None:
            account.passed(1, int(attempt.engine != LARGE))
            account.keep_pace(1, PACE_S, 60.0)
        if attempt.engine != LARGE and world.rng.random() < JUDGED:
            coming.append((at_s + _LATE_S, 1.0 - quality))
            outcomes[f"r{number}"] = _judged(f"r{number}", tenant, at_s + _LATE_S, attempt.engine, quality)
    records = collected.records
    assert len(records) == requests
    return Happened(
        [
            Experience(n, record, (outcomes[record.request_id],) if record.request_id in outcomes else ())
            for n, record in enumerate(records)
        ],
        sum(record.engine != LARGE for record in records) / requests,
        float(np.mean(qualities)),
        sum(record.cost_usd for record in records) / requests,
    )


def _judged(id: str, tenant: str, at_s: float, engine: str, quality: float) -> OutcomeRecord:
    return OutcomeRecord(id, tenant, at_s, "judge", "judge", engine, (), True, quality, JUDGED)
