"""From the settings to a replay: over an open memory, for who has engines at hand; or all of it, for a command."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

from prometheus_client import CollectorRegistry

from engines.engine import Engine
from learning.replay.candidates import Candidates, Scope
from learning.replay.distil import Distil
from learning.replay.expand import Expand
from learning.replay.material import Material
from learning.replay.metrics import ReplayMetrics
from learning.replay.order import Order
from learning.replay.replay import Replay
from learning.replay.run import ReplayRunner
from learning.replay.verdicts import Judge
from store.examples.twins import TwinRule
from store.jobs.replay_records import ReplayBudget
from understudy.memory import Memory
from understudy.settings.config import Config
from understudy.settings.learning import JudgingAdvanced
from understudy.setup.engines import Tenants, engines
from understudy.setup.examples import admission

LOCK_FILE = "replay.lock"
_MOST_STEPS = 2000
"""Most examples one run takes up."""
_THIN_BELOW = 0.8
"""An example whose nearest neighbour is less similar stands alone."""


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
    judge = Judge(
        engines[judge_name],
        verdict_tokens=how.verdict_tokens,
        fields=how.judge_fields,
    )
    material = Material(
        memory.store,
        engines,
        [model.engines for model in config.models.values()],
        admission(remembered),
        TwinRule(),
        engine=settings.engine,
        generator=settings.generator,
    )
    jobs = memory.store.replay
    distil = Distil(
        material,
        jobs,
        judge,
        samples=settings.samples,
        max_tokens=settings.max_tokens,
        fields={"temperature": settings.temperature},
    )
    expanding = Expand(
        material,
        jobs,
        judge,
        memory.embedder,
        variations=settings.variations,
        max_tokens=settings.max_tokens,
    )
    scope = Scope(
        most=_MOST_STEPS,
        samples=settings.samples,
        variations=settings.variations,
        expand=settings.expand,
    )
    assert remembered.data_dir is not None, "understudy.processes.run gives every memory a folder"
    return Replay(
        memory.store,
        Candidates(material, jobs, judge, scope),
        ReplayRunner(
            jobs,
            {"distil": distil, "expand": expanding},
            ReplayMetrics(registry),
            order=partial(Order, memory.store),
            in_flight=settings.in_flight,
        ),
        remembered.data_dir / LOCK_FILE,
        thin_below=_THIN_BELOW,
        most_steps=_MOST_STEPS,
    )


def budget_of(config: Config) -> ReplayBudget:
    """What the settings let one run spend."""
    advanced = config.replay.advanced
    return ReplayBudget(config.replay.max_run_usd, advanced.max_run_tokens, advanced.max_run_minutes * 60)


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
    memory = Memory.open(config.memory)
    made = engines(config, Tenants(memory.store.secret, memory.store.keys.tenant_named))
    try:
        yield replay(config, memory, made, registry or CollectorRegistry())
    finally:
        for engine in made.values():
            await engine.aclose()
        memory.close()
