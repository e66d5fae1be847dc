"""Every worker, and a worker that starts later, comes to the same from the log."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from learning.guarantee.students import EvidenceFollower
from router.tasks.takeover import Takeover, Takeovers
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


@pytest.mark.slow
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
        followers[1].read()
        assert later.standing == first.standing
        started = anew.of(TASK)
        other = anew.of(replace(TASK, tenant="u"))
        EvidenceFollower(store.tasks.answers, anew).read()
        assert started.standing == first.standing
        assert other.standing.compared == 0 and other.standing.threshold is None
        # What was proven for one loss is not proven for another: all is told again.
        strict = anew.of(replace(TASK, max_loss=0.01))
        assert strict is not started and strict.standing.threshold is None
    finally:
        store.close()


def test_a_refusal_counts_against_the_student_and_a_persons_label_never_for_it() -> None:
    rng = random.Random(0)
    takeover = Takeovers({"m": True}).of(TASK)
    for number in range(600):
        takeover.count(row(number, rng, answered_by="person"))
    assert takeover.standing.compared == 0
    for number in range(600):
        takeover.count(row(number, rng, label=None, unread="no_label"))
    assert takeover.standing.threshold is None


def proven() -> Takeover:
    """A student that answered; every fifth of its answers was checked."""
    rng, takeover = random.Random(0), Takeovers({"m": True}).of(TASK)
    for number in range(1500):
        takeover.count(row(number, rng))
    for number in range(1500, 2000):
        checked = number % 5 == 0
        by, label = ("teacher", "good") if checked else ("student", None)
        noted = (1 << 2) + checked
        takeover.count(row(number, rng, answered_by=by, label=label, confidence=0.98, checked=noted))
    assert takeover.standing.threshold is not None
    return takeover


def said(number: int, label: str, **other: object) -> TaskAnswer:
    """A person's word on a request that the student answered with "Good"."""
    told: dict[str, object] = {"answered_by": "person", "label": label, "confidence": 0.98} | other
    return row(number, random.Random(0), **told)


def test_what_people_correct_stops_a_student_that_its_teacher_agrees_with() -> None:
    takeover = proven()
    turned = [takeover.count(said(5000 + number, "bad")) for number in range(1000)]
    assert any(each is not None and not each.opened for each in turned)
    assert takeover.standing.threshold is None


def test_a_correction_counts_once_and_only_where_the_student_would_answer() -> None:
    takeover = proven()
    takeover.count(said(5000, "bad"))
    before = takeover.standing
    for number in range(1000):
        takeover.count(said(5000, "bad"))  # the same request, again and again
        takeover.count(said(6000 + number, "good"))  # the student was right
        takeover.count(said(8000 + number, "bad", confidence=0.4))  # the teacher answers these
    assert takeover.standing == before


def test_a_correction_of_what_the_teacher_said_otherwise_is_not_counted_again() -> None:
    takeover, rng = proven(), random.Random(1)
    checked = [row(5000 + n, rng, confidence=0.98, label="bad", checked=(1 << 2) + 1) for n in range(3)]
    for each in checked:
        takeover.count(each)
    before = takeover.standing
    for each in checked:
        takeover.count(replace(each, answered_by="person"))
    assert takeover.standing == before


def test_what_was_answered_under_a_budget_is_not_under_the_promise() -> None:
    takeover = proven()
    before = takeover.standing
    for number in range(1000):
        takeover.count(row(5000 + number, random.Random(0), answered_by="student", label=None))
    assert takeover.standing.room == before.room
