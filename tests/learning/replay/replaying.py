"""A replay in small: a store with a plan, engines of the simulated world, and work that asks three times per step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from prometheus_client import CollectorRegistry

from engines.asking import chat_of
from engines.engine import Engine, EngineInfo, Price
from learning.replay.asking import Asking, ReplayMetrics
from learning.replay.run import ReplayRunner
from simulation.engine import SimulatedEngine
from simulation.world import World
from store.database import Database
from store.jobs.replay_jobs import ReplayJobs
from store.jobs.replay_records import NewStep, ReplayBudget, ReplayStep
from store.sqlite.database import Database as SqliteDatabase

ASKS = 3
LEAD = EngineInfo("lead", "lead", Price(2.5, 10.0))


def lead(pace: float = 0.0) -> SimulatedEngine:
    return SimulatedEngine(
        LEAD, role="lead", world=World(facts=200), ttft_ms=20, token_ms=0, capacity=16, pace=pace
    )


class AsksThrice:
    """Work without an example: three questions under three keys."""

    def __init__(
        self, jobs: ReplayJobs, engine: Engine, told: Callable[[str], None] = lambda line: None
    ) -> None:
        self._jobs = jobs
        self._engine = engine
        self._told = told

    async def __call__(self, step: ReplayStep, asking: Asking) -> str:
        for number in range(ASKS):
            text = f"Question {number} about {step.plan.example_id}?"
            chat = chat_of({"model": "lead", "max_tokens": 256}, [{"role": "user", "content": text}])
            await asking.ask(f"answer/{number}", self._engine, chat, most_tokens=256, purpose="answer")
            self._told(f"paid {step.id} {number}")
        await asyncio.wrap_future(self._jobs.finish(step.id, "done", "kept"))
        return "kept"


def database(folder: Path, url: str = "") -> Database:
    """SQLite's in a folder; with a URL PostgreSQL's."""
    if url:
        from store.postgres.database import PostgresDatabase

        return PostgresDatabase.open(url)
    return SqliteDatabase.open(folder / "understudy.db")


def planned(
    folder: Path, steps: int, budget: ReplayBudget | None = None, *, url: str = ""
) -> tuple[Database, ReplayJobs, int]:
    """An open store with a wanted run of so many steps."""
    db = database(folder, url)
    jobs = ReplayJobs(db)
    run = jobs.want("t", budget or ReplayBudget(), asked_by="command").result()
    plan = [NewStep("t", "distil", n + 1, 0.1, 0.1, 0.001, 100, 0.1) for n in range(steps)]
    jobs.plan(run, plan).result()
    return db, jobs, run


def runner(
    jobs: ReplayJobs,
    engine: Engine,
    in_flight: int = 4,
    progress_s: float = 0.1,
    **more: Callable[[str], None],
) -> ReplayRunner:
    work = AsksThrice(jobs, engine, **more)
    return ReplayRunner(
        jobs,
        {"distil": work},
        ReplayMetrics(CollectorRegistry()),
        in_flight=in_flight,
        progress_s=progress_s,
    )
