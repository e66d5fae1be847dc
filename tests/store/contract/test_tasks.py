"""Answers to a task's requests come back as they were kept, a person's label stands for the teacher's, tasks are bounded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from store import Store
from store.records import TaskAnswer
from store.tasks.tasks import TaskRow
from tests.store.behind import forget_contributor
from tests.store.rows import choice_record, unit_vector


def answered(number: int, **changes: Any) -> TaskAnswer:
    fields: dict[str, Any] = {
        "tenant": "a1",
        "slot": "m/intent",
        "request_id": f"req-{number}",
        "at_s": 1000.0 + number,
        "answered_by": "teacher",
        "input": f"input {number}",
        "label": "refund",
        "answer": "Refund",
        "soft": {"refund": 0.75, "order": 0.25},
        "student_label": "order",
        "confidence": 0.5,
        "version": 7,
        "checked": True,
        "contributor": "k/ann",
        "end_user": "ann",
        "vector": unit_vector(number),
        "embedding_version": "v1",
    }
    return TaskAnswer(**(fields | changes))


def keep(store: Store, *answers: TaskAnswer) -> None:
    for each in answers:
        store.tasks.answers.record(each).result(30)


def test_an_answer_comes_back_as_it_was_kept(store: Store) -> None:
    kept = answered(1)
    keep(store, kept, answered(2, vector=None, soft=None, label=None, unread="no_label", version=None))
    first, second = store.tasks.answers.after(0)
    assert first.vector is not None and kept.vector is not None
    assert np.allclose(first.vector, kept.vector, atol=1e-3)
    assert replace(first, vector=None, id=0) == replace(kept, vector=None)
    assert (second.vector, second.label, second.unread, second.version) == (None, None, "no_label", None)
    assert [each.request_id for each in store.tasks.answers.after(first.id)] == ["req-2"]
    assert store.tasks.answers.after(0, tenant="b2") == store.tasks.answers.after(0, slot="m/other") == []
    assert store.tasks.answers.last_id() == second.id


def test_a_follower_reads_who_answered_what_without_texts_and_vectors(store: Store) -> None:
    kept = answered(1)
    keep(store, kept)
    (bare,) = store.tasks.answers.after(0, tenant="a1", slot="m/intent", content=False)
    left_out = {"input": "", "answer": "", "soft": None, "contributor": "", "end_user": ""}
    assert bare == replace(kept, vector=None, embedding_version="", id=bare.id, **left_out)


def test_what_is_not_finite_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="finite"):
        store.tasks.answers.record(answered(1, confidence=float("nan")))


def test_a_persons_label_stands_for_the_teachers_and_only_in_their_tenant(store: Store) -> None:
    answers = store.tasks.answers
    keep(
        store,
        answered(1),
        answered(2),
        answered(1, tenant="b2"),
        answered(3, label=None, answered_by="student"),
    )
    assert answers.label("a1", "req-1", "order", at_s=2000.0).result(30)
    assert answers.label("a1", "req-3", "order", at_s=2000.0).result(30)
    assert not answers.label("a1", "req-9", "order", at_s=2000.0).result(30)
    rows = answers.training_rows("a1", "m/intent", 10)
    assert [(row.request_id, row.label, row.weight, row.answered_by) for row in rows] == [
        ("req-2", "refund", 1.0, "teacher"),
        ("req-1", "order", 10.0, "person"),
        ("req-3", "order", 10.0, "person"),
    ]
    assert rows[1].soft is None and rows[1].input == "input 1" and rows[1].contributor == "k/ann"
    assert [row.label for row in answers.training_rows("b2", "m/intent", 10)] == ["refund"]
    assert [row.request_id for row in answers.training_rows("a1", "m/intent", 1)] == ["req-3"]
    assert answers.label("a1", "req-2", None, at_s=2000.0).result(30)
    assert [row.request_id for row in answers.training_rows("a1", "m/intent", 10)] == ["req-1", "req-3"]
    assert (
        answers.labelled("a1", "m/intent") == 4 and answers.labelled("a1", "m/intent", after=rows[1].id) == 1
    )


def test_the_least_certain_come_first_until_a_person_labelled_them(store: Store) -> None:
    keep(
        store,
        *(answered(n, confidence=c) for n, c in enumerate((0.9, 0.2, 0.5), 1)),
        answered(4, confidence=None),
    )
    answers = store.tasks.answers
    assert [row.request_id for row in answers.uncertain("a1", "m/intent", 9)] == ["req-2", "req-3", "req-1"]
    answers.label("a1", "req-2", "order", at_s=1.0).result(30)
    assert [row.request_id for row in answers.uncertain("a1", "m/intent", 9)] == ["req-3", "req-1"]


def test_counts_tell_how_often_student_and_teacher_agreed(store: Store) -> None:
    keep(store, answered(1), answered(2), answered(3, student_label="refund"), answered(4, tenant="b2"))
    counts = store.tasks.answers.counts("a1", "m/intent")
    assert {(c.label, c.student_label, c.checked): c.count for c in counts} == {
        ("refund", "order", True): 2,
        ("refund", "refund", True): 1,
    }
    assert [(tenant, slot) for tenant, slot, _ in store.tasks.answers.slots()] == [
        ("a1", "m/intent"),
        ("b2", "m/intent"),
    ]


def test_the_old_and_those_beyond_a_tasks_latest_go(store: Store) -> None:
    keep(store, *(answered(n) for n in range(1, 6)), *(answered(n, slot="m/other") for n in (6, 7)))
    assert store.tasks.answers.trim(1002.0, 3).result(30) == 2
    assert [row.request_id for row in store.tasks.answers.after(0)] == [
        "req-3",
        "req-4",
        "req-5",
        "req-6",
        "req-7",
    ]


def test_who_is_forgotten_leaves_no_row_and_no_student(store: Store) -> None:
    keep(store, answered(1), answered(2, contributor="k/ben"), answered(3, tenant="b2"))
    for tenant in ("a1", "b2"):
        store.artifacts.publish("student", tenant, "m/intent", b"weights", metrics={})
    assert "k/ann" in store.examples.contributors.names("a1")
    forget_contributor(store, "a1", "k/ann")
    assert [row.request_id for row in store.tasks.answers.after(0, tenant="a1")] == ["req-2"]
    assert store.artifacts.active("student", "a1", "m/intent") is None
    assert store.artifacts.active("student", "b2", "m/intent") is not None
    store.forget_tenant("b2")
    assert store.tasks.answers.after(0, tenant="b2") == []


def test_nobody_in_particular_is_not_forgotten(store: Store) -> None:
    with pytest.raises(ValueError, match="nobody"):
        store.tasks.answers.forget_contributor("a1", "")


def test_a_tenant_has_so_many_tasks_and_no_more(store: Store) -> None:
    known = store.tasks.known
    assert known.add(TaskRow("a1", "m", "intent", "header", labels=("a", "b")), most=2).result(30)
    assert not known.add(TaskRow("a1", "m", "intent", "schema"), most=2).result(30)
    assert known.add(TaskRow("a1", "m", "mood", "schema", scope="s1"), most=2).result(30)
    assert not known.add(TaskRow("a1", "m", "third", "header"), most=2).result(30)
    assert known.add(TaskRow("b2", "m", "third", "header"), most=2).result(30)
    assert known.all(tenant="a1") == [
        TaskRow("a1", "m", "intent", "header", labels=("a", "b")),
        TaskRow("a1", "m", "mood", "schema", scope="s1"),
    ]


def test_a_switched_task_is_noticed_and_a_proposal_never_switches_it_back(store: Store) -> None:
    known = store.tasks.known
    proposal = TaskRow("a1", "m", "intent", "proposal", "proposed", scope="s1", grounds={"answers": 200})
    assert known.add(proposal, most=9).result(30)
    assert known.add(replace(proposal, grounds={"answers": 300}), most=9).result(30)
    assert known.all()[0].grounds == {"answers": 300}
    assert known.switch("intent", "on", at_s=5.0, by="ann", tenant="b2").result(30) == 0
    assert known.switch("intent", "on", at_s=5.0, by="ann").result(30) == 1
    assert not known.add(replace(proposal, grounds={"answers": 400}), most=9).result(30)
    (row,) = known.all(name="intent")
    assert (row.state, row.by, row.grounds) == ("on", "ann", {"answers": 300})


def test_a_task_that_nobody_uses_any_more_makes_room(store: Store) -> None:
    known = store.tasks.known
    known.add(TaskRow("a1", "m", "intent", "header"), most=9).result(30)
    known.add(TaskRow("a1", "m", "idle", "header"), most=9).result(30)
    known.add(TaskRow("a1", "m", "declared", "configured"), most=9).result(30)
    keep(store, answered(1))
    store.decisions.choices.record(choice_record(1)).result(30)
    assert known.forget_idle(1e9).result(30) == 1
    assert [row.name for row in known.all()] == ["declared", "intent"]
