"""What a run asked and paid for: never lost, never twice, never beyond its budget, and never by two runs at once."""

from __future__ import annotations

import pytest

from store.database import Database
from store.jobs.replay_jobs import ReplayJobs
from store.jobs.replay_records import ReplayBudget
from tests.store.contract.test_replay_jobs import ask, step


@pytest.fixture
def jobs(either: Database) -> ReplayJobs:
    return ReplayJobs(either)


def begun(jobs: ReplayJobs, budget: ReplayBudget | None = None, steps: int = 2) -> int:
    run = jobs.want("a1", budget or ReplayBudget(), asked_by="command").result()
    jobs.plan(run, [step(n + 1) for n in range(steps)]).result()
    jobs.begin(run).result()
    return run


def test_a_forgotten_tenant_leaves_no_step_and_no_ask(jobs: ReplayJobs, either: Database) -> None:
    run = begun(jobs)
    jobs.asks.note(ask(jobs, run)).result()
    jobs.forget_tenant("a1").result()
    assert jobs.runs() == []
    for table in ("replay_steps", "replay_asks"):
        assert either.read().execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
