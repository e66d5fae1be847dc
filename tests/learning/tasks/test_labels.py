"""What people say of a task's answer labels its request, and outweighs what the teacher said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from learning.outcomes.feedback import UserFeedback
from learning.tasks.labels import GivenLabels
from store import Store
from store.tasks.tasks import TaskRow
from tests.store.contract.test_tasks import answered


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    opened.tasks.known.add(TaskRow("a1", "m", "intent", "configured", labels=("refund", "order")), most=9)
    opened.tasks.answers.record(answered(1, label="refund"))
    opened.tasks.answers.record(answered(2, label=None, answered_by="student", student_label="order"))
    small = {"label": None, "answer": "Order", "answered_by": "other", "student_label": None}
    opened.tasks.answers.record(answered(3, **small))
    assert opened.drain(30)
    yield opened
    opened.close()


def learnt(store: Store, number: int, **said: Any) -> tuple[str, float] | None:
    GivenLabels(store.tasks).said("a1", f"req-{number}", UserFeedback(f"req-{number}", "decision", **said))
    rows = store.tasks.answers.training_rows("a1", "m/intent", 9)
    return next(((r.label or "", r.weight) for r in rows if r.request_id == f"req-{number}"), None)


def test_a_correction_is_the_label(store: Store) -> None:
    assert learnt(store, 1, correction="Order") == ("Order", 10.0)
    assert learnt(store, 2, correction='{"intent": "refund"}') == ("refund", 10.0)


def test_what_is_no_label_of_the_task_takes_the_teachers_away(store: Store) -> None:
    assert learnt(store, 1, correction="It is both, I fear.") is None


def test_approval_confirms_what_was_answered(store: Store) -> None:
    assert learnt(store, 1, thumb="up") == ("refund", 3.0)
    assert learnt(store, 2, score=1.0) == ("order", 3.0)


def test_disapproval_takes_a_label_away_and_a_comment_changes_nothing(store: Store) -> None:
    assert learnt(store, 1, comment="Well.") == ("refund", 1.0)
    assert learnt(store, 1, thumb="down") is None


def test_approval_of_another_engines_answer_makes_it_the_label(store: Store) -> None:
    assert learnt(store, 3, thumb="down") is None and len(store.tasks.answers.after(0)) == 3
    assert learnt(store, 3, thumb="up") == ("Order", 3.0)


def test_what_the_teacher_says_to_another_engines_request_is_a_label_like_any_other(store: Store) -> None:
    labels = GivenLabels(store.tasks)
    labels.teacher_said("a1", "req-3", "I cannot say.")
    assert len(store.tasks.answers.after(0)) == 3
    labels.teacher_said("a1", "req-3", "Refund.")
    row = store.tasks.answers.of_request("a1", "req-3")
    assert row is not None and (row.label, row.weight, row.answered_by) == ("Refund", 1.0, "sample")
    # The client got another answer: what it thinks of that says nothing of the teacher's.
    assert learnt(store, 3, thumb="down") == learnt(store, 3, thumb="up") == ("Refund", 1.0)
    assert learnt(store, 3, correction="order") == ("order", 10.0)


def test_a_person_who_was_faster_is_believed_and_who_teaches_nothing_new_is_not_asked(store: Store) -> None:
    assert learnt(store, 3, correction="order") == ("order", 10.0)
    labels = GivenLabels(store.tasks)
    for number in (1, 2, 3, 9):
        labels.teacher_said("a1", f"req-{number}", "refund")
    assert not [row for row in store.tasks.answers.after(0) if row.answered_by == "sample"]


def test_feedback_on_other_requests_and_tenants_labels_nothing(store: Store) -> None:
    GivenLabels(store.tasks).said("b2", "req-1", UserFeedback("req-1", "decision", correction="order"))
    assert len(store.tasks.answers.after(0)) == 3
    assert not GivenLabels(store.tasks).knows("b2", "req-1") and GivenLabels(store.tasks).knows("a1", "req-1")
