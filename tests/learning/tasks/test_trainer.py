"""The learner trains a task's student when enough is new, from the tenant's own labels, and forgets what was forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from learning.tasks.trainer import Rhythm, StudentLearner, StudentPace
from learning.tasks.training import Labelled
from router.tasks.student import Student
from store import Store
from store.records import TaskAnswer
from tests.learning.tasks.customers import labelled

SLOT = "openai/gpt-4o/intent"


@dataclass
class Bench:
    """A store with labels, and a learner over it."""

    store: Store
    due: Callable[[str, str], Rhythm | None] = lambda tenant, slot: Rhythm(every=60)
    written: int = 0
    made: StudentLearner | None = field(default=None)

    @property
    def learner(self) -> StudentLearner:
        if self.made is None:
            pace = StudentPace(kinds=("logistic",))
            self.made = StudentLearner(self.store.tasks.answers, self.store.artifacts, self.due_now, pace)
        return self.made

    def due_now(self, tenant: str, slot: str) -> Rhythm | None:
        """What is due as of now."""
        return self.due(tenant, slot)

    def say(
        self, count: int, *, tenant: str = "acme", end_user: str = "", contributor: str = "", label: str = ""
    ) -> None:
        for row in labelled()[self.written : self.written + count]:
            said = label or row.label
            answer = TaskAnswer(
                tenant=tenant,
                slot=SLOT,
                request_id=f"r{self.written}",
                at_s=row.at_s,
                answered_by="teacher",
                input=row.input,
                label=said,
                answer=f'{{"intent": "{said}"}}',
                vector=row.vector,
                embedding_version="now",
                end_user=end_user,
                contributor=contributor,
            )
            self.store.tasks.answers.record(answer).result(10)
            self.written += 1

    def active(self, tenant: str = "acme") -> Student | None:
        record = self.store.artifacts.active("student", tenant, SLOT)
        return Student.open(self.store.artifacts.read(record)) if record else None


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    store = Store.open(tmp_path)
    try:
        yield Bench(store)
    finally:
        store.close()


def test_it_is_trained_once_enough_is_new_and_answers_in_the_teachers_form(bench: Bench) -> None:
    bench.say(59)
    assert bench.learner.step() == []
    bench.say(1)
    (record,) = bench.learner.step()
    assert (record.kind, record.tenant, record.model, record.state) == ("student", "acme", SLOT, "active")
    assert record.metrics["outcomes"] == 60 and record.metrics["until_id"] == 60
    student = bench.active()
    assert student is not None and student.declared.embedding_version == "now"
    assert (
        student.predict(labelled()[0].input, labelled()[0].vector, 1).answer
        == f'{{"intent": "{labelled()[0].label}"}}'
    )
    assert bench.learner.step() == []

    bench.say(60)
    (later,) = bench.learner.step()
    assert later.parent == record.id and later.metrics["newest"] == 60
    # Another process that begins now knows that nothing is due.
    bench.made = None
    assert bench.learner.step() == []


def test_a_schedule_trains_on_what_came_before_it_however_little_that_is(bench: Bench) -> None:
    now_s = labelled()[-1].at_s
    bench.due = lambda tenant, slot: Rhythm(every=1_000, tick_s=labelled()[29].at_s)
    pace = StudentPace(kinds=("logistic",))
    bench.made = StudentLearner(
        bench.store.tasks.answers, bench.store.artifacts, bench.due_now, pace, clock=lambda: now_s
    )
    bench.say(30)
    (first,) = bench.learner.step()
    assert first.metrics["until_id"] == 30
    bench.say(10)
    assert bench.learner.step() == []
    # A minute passes, and with it the next time of the schedule; nothing else is new.
    now_s += 60
    bench.due = lambda tenant, slot: Rhythm(every=1_000, tick_s=labelled()[-1].at_s)
    (second,) = bench.learner.step()
    assert second.metrics["until_id"] == 40
    now_s += 60
    assert bench.learner.step() == []


def test_no_tenants_labels_reach_another(bench: Bench) -> None:
    bench.say(60)
    bench.say(60, tenant="globex", label="")
    assert {record.tenant for record in bench.learner.step()} == {"acme", "globex"}
    acme, globex = bench.active("acme"), bench.active("globex")
    assert acme is not None and globex is not None
    assert acme.declared.met != globex.declared.met


def test_after_a_user_is_forgotten_a_student_is_trained_without_what_they_said(bench: Bench) -> None:
    bench.say(60, contributor="key:1")
    bench.say(30, contributor="key:2")
    (before,) = bench.learner.step()
    bench.store.forget_contributors("acme", ["key:2"])
    assert bench.active() is None
    (after,) = bench.learner.step()
    assert (after.metrics["outcomes"], after.state) == (60, "active") and after.id > before.id
    assert bench.learner.step() == []


@pytest.mark.slow
def test_a_label_that_one_end_user_alone_was_given_is_no_ones(bench: Bench) -> None:
    bench.say(60, end_user="alice")
    bench.say(30, end_user="bob")
    bench.say(10, end_user="alice", label="Alice Smith")
    # A correction is that end user's word, too.
    bench.store.tasks.answers.label("acme", "r99", "Alice Smith", at_s=1.0).result(10)
    bench.learner.step()
    student = bench.active()
    assert student is not None and set(student.labels) == {"account", "delivery", "refund"}

    bench.say(60, end_user="bob", label="Alice Smith")
    bench.learner.step()
    student = bench.active()
    assert student is not None and "Alice Smith" in student.labels


def test_a_declared_label_needs_no_second_end_user(bench: Bench) -> None:
    bench.due = lambda tenant, slot: Rhythm(every=60, labels=("refund", "delivery", "account"))
    bench.say(60, end_user="alice")
    assert [record.state for record in bench.learner.step()] == ["active"]


def test_vectors_of_another_embedder_are_not_trained_on(bench: Bench) -> None:
    bench.say(60)
    old = bench.store.tasks.answers.training_rows("acme", SLOT, 100)
    for row in old[:30]:
        other = replace(row, request_id=f"new{row.id}", embedding_version="later", id=0)
        bench.store.tasks.answers.record(other).result(10)
    (record,) = bench.learner.step()
    assert record.metrics["inputs"] == 30


def test_a_task_that_is_nobodys_is_left_alone(bench: Bench) -> None:
    bench.due = lambda tenant, slot: None
    bench.say(60)
    assert bench.learner.step() == []


@pytest.mark.slow
def test_a_persons_word_outweighs_what_the_teacher_says_again_and_again(bench: Bench) -> None:
    bench.say(100)
    repeated = labelled()[0]
    for number in range(4):
        again = replace(bench.store.tasks.answers.after(0, 1)[0], request_id=f"again{number}")
        bench.store.tasks.answers.record(again).result(10)
    bench.learner.step()
    assert says(bench, repeated) == repeated.label
    assert bench.store.tasks.answers.label("acme", "again0", "delivery", at_s=1e9).result(10)
    bench.say(60)
    bench.learner.step()
    assert says(bench, repeated) == "delivery" != repeated.label


def says(bench: Bench, row: Labelled) -> str:
    student = bench.active()
    assert student is not None and row.vector is not None
    return student.predict(row.input, row.vector, 1).label
