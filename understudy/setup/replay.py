"""From the settings to a replay: over an open memory, for who has engines at hand; or all of it, for a command."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from engines.engine import Engine
from learning.outcomes.judge import TIE_BAND
from learning.outcomes.verdicts import Judge
from learning.replay.asking import ReplayMetrics
from learning.replay.distil import Distil
from learning.replay.expand import Expand
from learning.replay.material import Material
from learning.replay.plan import Planner
from learning.replay.run import Replay, ReplayRunner
from store.examples.twins import TwinRule
from store.jobs.replay_records import ReplayBudget
from understudy.memory import Memory
from understudy.settings.config import Config
from understudy.settings.reach import replay_out_of_reach
from understudy.setup.admission import admission
from understudy.setup.engines import Tenants, engines

LOCK_FILE = "replay.lock"


class CannotReplay(Exception):
    """The configuration lacks what replay needs. The text says what."""


def replay(
    config: Config,
    memory: Memory,
    engines: Mapping[str, Engine],
    registry: CollectorRegistry,
) -> Replay:
    """Over an open memory with an embedder. Raises CannotReplay."""
    remembered, settings, judging = config.memory, config.replay, config.judging
    if remembered is None or memory.embedder is None or memory.store.indexes is None:
        raise CannotReplay(
            "there are no examples to replay: set `memory`, with examples.enabled and a data_dir"
        )
    judge_name = settings.judge or (judging.engine if judging else None)
    if judge_name is None:
        raise CannotReplay("nobody can judge: set replay.judge, or `judging`")
    if not config.models and settings.engine is None:
        raise CannotReplay("nobody can answer: set `models`, or replay.engine")
    examples = remembered.examples
    judge = Judge(
        engines[judge_name],
        votes=settings.votes,
        tie=judging.tie if judging else TIE_BAND,
        verdict_tokens=judging.verdict_tokens if judging else 300,
        fields=judging.judge_fields if judging else {},
    )
    material = Material(
        memory.store,
        engines,
        [model.engines for model in config.models.values()],
        admission(examples),
        TwinRule(examples.twin_similarity, examples.twin_overlap),
        engine=settings.engine,
        generator=settings.generator,
    )
    jobs, sampled = memory.store.replay, {"temperature": settings.temperature}
    planner = Planner(
        material,
        jobs,
        judge,
        samples=settings.samples,
        expand=settings.expand,
        most=settings.most_steps,
        again_after_s=settings.again_after_h * 3600,
    )
    characters = examples.embedding.max_characters
    runner = ReplayRunner(
        jobs,
        {
            "distil": Distil(material, jobs, judge, settings.samples, settings.max_tokens, sampled),
            "expand": Expand(material, jobs, judge, memory.embedder, settings.max_tokens, characters),
        },
        ReplayMetrics(registry),
        order=planner.order,
        in_flight=settings.in_flight,
        pause_above=judging.pause_above if judging else 0.8,
    )
    assert remembered.data_dir is not None, "understudy.processes.run gives every memory a folder"
    return Replay(memory.store, planner, runner, remembered.data_dir / LOCK_FILE)


def budget_of(config: Config) -> ReplayBudget:
    """What the settings let one run spend."""
    budget = config.replay.budget
    return ReplayBudget(budget.usd, budget.tokens, budget.minutes * 60)


@asynccontextmanager
async def opened(config: Config, registry: CollectorRegistry | None = None) -> AsyncIterator[Replay]:
    """A replay with a memory and engines of its own, closed at the end. A gateway may run on the same data folder.

    Raises CannotReplay, and what understudy.memory.Memory.open raises.
    """
    if config.memory is None or config.memory.data_dir is None:
        raise CannotReplay("there is nothing to replay: set memory.data_dir")
    beyond = replay_out_of_reach(config)
    if beyond is not None:
        raise CannotReplay(beyond)
    memory = Memory.open(config.memory, versions_kept=config.learning.versions_kept)
    made = engines(config, Tenants(memory.store.secret, memory.store.keys.tenant_named))
    try:
        yield replay(config, memory, made, registry or CollectorRegistry())
    finally:
        for engine in made.values():
            await engine.aclose()
        memory.close()
