"""What people say of a task's answer labels its request, and outweighs what the teacher said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from learning.outcomes.feedback import UserFeedback
from learning.tasks.labels import PersonsLabels
from store import Store
from store.tasks.tasks import TaskRow
from tests.store.contract.test_tasks import answered


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    opened.tasks.known.add(TaskRow("a1", "m", "intent", "configured", labels=("refund", "order")), most=9)
    opened.tasks.answers.record(answered(1, label="refund"))
    opened.tasks.answers.record(answered(2, label=None, answered_by="student", student_label="order"))
    assert opened.drain(30)
    yield opened
    opened.close()


def learnt(store: Store, number: int, **said: Any) -> tuple[str, float] | None:
    PersonsLabels(store.tasks).said("a1", f"req-{number}", UserFeedback(f"req-{number}", "decision", **said))
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


def test_feedback_on_other_requests_and_tenants_labels_nothing(store: Store) -> None:
    PersonsLabels(store.tasks).said("b2", "req-1", UserFeedback("req-1", "decision", correction="order"))
    assert len(store.tasks.answers.after(0)) == 2
    assert not PersonsLabels(store.tasks).knows("b2", "req-1") and PersonsLabels(store.tasks).knows(
        "a1", "req-1"
    )
