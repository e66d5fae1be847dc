"""Each task is trained at its own pace and with its own labels; where nothing can be a task, nothing is trained."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from learning.training.metrics import LearningMetrics
from router.tasks.task import Task
from store import Store
from store.records import TaskAnswer
from tests.learning.tasks.customers import labelled
from understudy.processes.wanted import learner_wanted
from understudy.settings.config import Config
from understudy.settings.file import parse_config
from understudy.setup.engines import Tenants, engines
from understudy.setup.students import student_learner, students


def config(replay: dict[str, Any] | None = None, **model: Any) -> Config:
    return parse_config(
        {
            "engines": {"large": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1"}},
            "models": {"org/m": {"engines": ["large"], "policy": "fixed"} | model},
            "memory": {},
            "replay": replay or {},
        }
    )


TASKS = {"intent": {"labels": ["refund", "delivery", "account"], "retrain_every": 40}}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    try:
        yield opened
    finally:
        opened.close()


def test_a_learner_runs_where_tasks_alone_learn() -> None:
    assert learner_wanted(config(tasks=TASKS))
    assert "student" in engines(config(tasks=TASKS), Tenants(b""))
    assert not learner_wanted(config(remember=False))
    assert "student" not in engines(config(remember=False), Tenants(b""))


@pytest.mark.slow
def test_a_student_is_trained_at_its_tasks_pace_and_opened_by_workers(store: Store) -> None:
    now_s = time.time()
    for n, row in enumerate(labelled()[:40]):
        answer = TaskAnswer(
            "acme", "org/m/intent", f"r{n}", now_s + n, "teacher", row.input, row.label, answer=row.label,
            vector=row.vector, embedding_version="now", end_user="alice",
        )  # fmt: skip
        store.tasks.answers.record(answer).result(10)
    other = config(tasks={"other": TASKS["intent"]})
    assert student_learner(store, other, lambda: False).step() == []
    (record,) = student_learner(store, config(tasks=TASKS), lambda: False).step()
    assert record.metrics["labels"] == 3
    follower = students(store, "now", LearningMetrics(CollectorRegistry()))
    follower.start()
    try:
        task = Task("intent", "acme", "org/m")
        assert follower.ready(task.tenant, task.slot) and [version for version, _ in follower.of(task)] == [
            record.id
        ]
    finally:
        follower.stop()


@pytest.mark.slow
def test_a_task_is_trained_when_its_schedule_says_in_the_time_zone_of_replay(store: Store) -> None:
    # 2026-06-01 00:30 UTC: half past two in Rome.
    half_past_two_s = 1_780_273_800.0
    for n, row in enumerate(labelled()[:30]):
        answer = TaskAnswer(
            "acme", "org/m/intent", f"r{n}", half_past_two_s - 3600 + n, "teacher", row.input, row.label,
            answer=row.label, vector=row.vector, embedding_version="now",
        )  # fmt: skip
        store.tasks.answers.record(answer).result(10)
    daily = {"intent": TASKS["intent"] | {"retrain": "0 2 * * *"}}
    in_utc, in_rome = config(tasks=daily), config({"time_zone": "Europe/Rome"}, tasks=daily)
    assert student_learner(store, in_utc, lambda: False, lambda: half_past_two_s).step() == []
    assert len(student_learner(store, in_rome, lambda: False, lambda: half_past_two_s).step()) == 1
