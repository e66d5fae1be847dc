"""What pages read of a task is what its workers know, from the log alone."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from learning.guarantee.standings import TaskReader
from learning.guarantee.students import EvidenceFollower
from router.tasks.takeover import Takeovers
from router.tasks.task import Budget, Task
from store import Store
from store.records import TaskAnswer

TASK = Task("intent", "t1", "m", max_loss=0.2)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


def compared(store: Store, count: int, task: Task = TASK, *, label: str = "a") -> None:
    draw = random.Random(2)
    for number in range(count):
        answer = TaskAnswer(
            *(task.tenant, task.slot, f"r{number}", time.time(), "teacher"),
            label=label,
            student_label="a",
            confidence=draw.uniform(0.9, 1.0),
            version=1,
        )
        store.tasks.answers.record(answer)
    assert store.drain(30)


def test_a_reader_that_comes_late_knows_what_a_worker_knows(store: Store) -> None:
    compared(store, 150)
    worker = Takeovers({"m": True})
    known = worker.of(TASK)
    EvidenceFollower(store.tasks.answers, worker, says=False).look()
    reader = TaskReader(store.tasks.answers, {"m": True})
    try:
        (told,) = reader.of([TASK], wait_s=30) or [None]
        assert told is not None and told.standing == known.standing and told.standing.threshold is not None
        assert told.budget_share is None and not told.drifting
        # What came since, and a task that was not asked for before.
        other = replace(TASK, name="other", budget=Budget(calls_per_day=1000))
        compared(store, 60, other, label="b")
        again, new = reader.of([TASK, other], wait_s=30) or [None, None]
        assert again == told
        assert new is not None and new.drifting and new.budget_share is not None
    finally:
        reader.close()


def test_a_log_that_takes_long_keeps_no_page_waiting(store: Store) -> None:
    compared(store, 600)
    reader = TaskReader(store.tasks.answers, {"m": True})
    try:
        assert reader.of([TASK], wait_s=0.0) is None
        (told,) = reader.of([TASK], wait_s=30) or [None]
        assert told is not None and told.standing.compared
    finally:
        reader.close()
