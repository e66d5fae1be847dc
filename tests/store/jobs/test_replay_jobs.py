"""What a run asked and paid for: never lost, never twice, never beyond its budget, and never by two runs at once."""

from __future__ import annotations

import pytest

from store.jobs.replay_jobs import ReplayJobs
from store.jobs.replay_records import NewAsk, NewStep, ReplayBudget
from store.sqlite.database import Database


def step(example_id: int = 1, tenant: str = "a1", **changes: object) -> NewStep:
    fields: dict[str, object] = {
        "tenant": tenant,
        "kind": "distil",
        "example_id": example_id,
        "gain": 0.5,
        "companion_gain": 0.25,
        "expected_effect": 0.125,
        "expected_usd": 0.01,
        "expected_tokens": 100,
        "expected_s": 2.0,
    }
    return NewStep(**(fields | changes))  # type: ignore[arg-type]


def ask(jobs: ReplayJobs, run: int, key: str = "answer/0", usd: float = 0.1, tokens: int = 50) -> NewAsk:
    first = jobs.steps(run)[0]
    return NewAsk(run, first.id, "a1", key, "lead", "answer", usd, tokens)


@pytest.fixture
def jobs(db: Database) -> ReplayJobs:
    return ReplayJobs(db)


def begun(jobs: ReplayJobs, budget: ReplayBudget | None = None, steps: int = 2) -> int:
    run = jobs.want("a1", budget or ReplayBudget(), asked_by="command").result()
    jobs.plan(run, [step(n + 1) for n in range(steps)]).result()
    jobs.begin(run).result()
    return run


def test_a_forgotten_tenant_leaves_no_step_and_no_ask(jobs: ReplayJobs, db: Database) -> None:
    run = begun(jobs)
    jobs.asks.note(ask(jobs, run)).result()
    jobs.forget_tenant("a1").result()
    assert jobs.runs() == []
    for table in ("replay_steps", "replay_asks"):
        assert db.read().execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
