"""Every worker, and a worker that starts later, comes to the same from the log."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from learning.tasks.evidence import EvidenceFollower
from router.tasks.takeover import Takeovers
from router.tasks.task import Task
from store.records import TaskAnswer
from store.store import Store

TASK = Task("mood", "t", "m")


def row(number: int, rng: random.Random, **other: object) -> TaskAnswer:
    sure = rng.random() < 0.5
    label = "good" if rng.random() < (0.99 if sure else 0.5) else "bad"
    answer = TaskAnswer(
        "t", TASK.slot, f"r{number}", 1e9 + number, "teacher", label=label, student_label="Good",
        confidence=0.98 if sure else 0.6, version=1,
    )  # fmt: skip
    return replace(answer, **other)  # type: ignore[arg-type]


def test_workers_and_a_restart_know_the_same_and_another_tenant_nothing(tmp_path: Path) -> None:
    store, rng = Store.open(tmp_path), random.Random(0)
    try:
        workers = [Takeovers({"m": True}) for _ in range(2)]
        followers = [EvidenceFollower(store.tasks.answers, takeovers) for takeovers in workers]
        first = workers[0].of(TASK)
        followers[0].start()
        try:
            for number in range(600):
                store.tasks.answers.record(row(number, rng)).result()
            assert followers[0].caught_up()
            assert first.standing.threshold is not None and first.standing.compared > 300
        finally:
            followers[0].stop()
        # The second worker meets the task only now; a third process starts anew.
        later, anew = workers[1].of(TASK), Takeovers({"m": True})
        followers[1].tell_new()
        assert later.standing == first.standing
        started = anew.of(TASK)
        other = anew.of(replace(TASK, tenant="u"))
        EvidenceFollower(store.tasks.answers, anew).tell_new()
        assert started.standing == first.standing
        assert other.standing.compared == 0 and other.standing.threshold is None
        # What was proven for one loss is not proven for another: all is told again.
        strict = anew.of(replace(TASK, max_loss=0.01))
        assert strict is not started and strict.standing.threshold is None
    finally:
        store.close()


def test_a_refusal_counts_against_the_student_and_a_persons_label_for_nothing() -> None:
    rng = random.Random(0)
    takeover = Takeovers({"m": True}).of(TASK)
    for number in range(600):
        takeover.count(row(number, rng, answered_by="person"))
    assert takeover.standing.compared == 0
    for number in range(600):
        takeover.count(row(number, rng, label=None, unread="no_label"))
    assert takeover.standing.threshold is None
