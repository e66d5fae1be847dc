"""From the settings to a replay: over an open memory, for who has engines at hand; or all of it, for a command."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from engines.engine import Engine
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
from understudy.settings.learning import JudgingAdvanced
from understudy.setup.engines import Tenants, engines
from understudy.setup.examples import admission

_MOST_STEPS = 2000
"""Most examples one run takes up."""
_MOST_RUN_S = 7200.0
"""Most time of engines one run takes: its requests' latencies added up."""
_TEMPERATURE = 0.8
"""Of the answers that are sampled: at 0 they would be one and the same."""


class CannotReplay(Exception):
    """The configuration lacks what replay needs. The text says what."""


def replay(
    config: Config,
    memory: Memory,
    engines: Mapping[str, Engine],
    registry: CollectorRegistry,
) -> Replay:
    """Over an open memory with an embedder. Raises CannotReplay."""
    remembered, settings, judging = config.memory, config.replay.advanced, config.judging
    if remembered is None or memory.embedder is None or memory.store.indexes is None:
        raise CannotReplay(
            "there are no examples to replay: set `memory`, with examples.enabled and a data_dir"
        )
    judge_name = config.replay.judge or (judging.engine if judging else None)
    if judge_name is None:
        raise CannotReplay("nobody can judge: set replay.judge, or `judging`")
    if not config.models and settings.engine is None:
        raise CannotReplay("nobody can answer: set `models`, or replay.advanced.engine")
    how = judging.advanced if judging else JudgingAdvanced()
    judge = Judge(engines[judge_name], verdict_tokens=how.verdict_tokens)
    material = Material(
        memory.store,
        engines,
        [model.engines for model in config.models.values()],
        admission(remembered),
        TwinRule(),
        engine=settings.engine,
        generator=settings.generator,
        judge=judge_name,
    )
    jobs = memory.store.jobs.replay
    planner = Planner(
        material,
        jobs,
        judge,
        expand=settings.expand,
        most=_MOST_STEPS,
    )
    runner = ReplayRunner(
        jobs,
        {
            "distil": Distil(material, jobs, judge, fields={"temperature": _TEMPERATURE}),
            "expand": Expand(material, jobs, judge, memory.embedder),
        },
        ReplayMetrics(registry),
        order=planner.order,
    )
    return Replay(memory.store, planner, runner)


def budget_of(config: Config) -> ReplayBudget:
    """What the settings let one run spend."""
    settings = config.replay
    return ReplayBudget(settings.max_run_usd, settings.advanced.max_run_tokens, _MOST_RUN_S)


@asynccontextmanager
async def opened(config: Config, registry: CollectorRegistry | None = None) -> AsyncIterator[Replay]:
    """A replay with a memory and engines of its own, closed at the end. A gateway may run on the same data folder.

    Raises CannotReplay, and what understudy.memory.Memory.open raises.
    """
    if config.memory is None or config.memory.data_dir is None:
        raise CannotReplay("there is nothing to replay: set memory.data_dir")
    beyond = config.replay_out_of_reach()
    if beyond is not None:
        raise CannotReplay(beyond)
    memory = Memory.open(config.memory, config.retention)
    made = engines(config, Tenants(memory.store.secret, memory.store.keys.tenant_named))
    try:
        yield replay(config, memory, made, registry or CollectorRegistry())
    finally:
        for engine in made.values():
            await engine.aclose()
        memory.close()
