"""The log of a task's answers only grows at its end, and its readers see their own tenant's task and nothing else."""

from __future__ import annotations

import pytest

from store.database import Database
from store.decisions.requests import RequestLog
from store.tasks.answers import TaskAnswers
from tests.store.contract.test_tasks import answered
from tests.store.rows import request_record


@pytest.fixture
def log(either: Database) -> TaskAnswers:
    return TaskAnswers(either)


def keep(log: TaskAnswers, *numbers: int, **changes: object) -> None:
    for number in numbers:
        log.record(answered(number, **changes)).result(30)


def requests(log: TaskAnswers, after: int = 0, limit: int = 1000, **of: str) -> list[str]:
    return [row.request_id for row in log.after(after, limit, **of)]


def test_a_label_is_written_behind_what_was_said_before_and_changes_none_of_it(log: TaskAnswers) -> None:
    keep(log, 1, 2)
    before = log.after(0)
    assert log.label("a1", "req-1", "order", at_s=2000.0).result(30)
    assert log.label("a1", "req-1", "refund", at_s=2001.0).result(30)
    *kept, first, second = log.after(0)
    assert [(row.id, row.label, row.answered_by) for row in kept] == [
        (row.id, row.label, row.answered_by) for row in before
    ]
    assert (first.label, second.label, second.id > first.id > kept[-1].id) == ("order", "refund", True)
    latest = log.of_request("a1", "req-1")
    assert latest is not None and latest.id == second.id
    assert [row.label for row in log.training_rows("a1", "m/intent", 9)] == ["refund", "refund"]


def test_a_reader_goes_on_where_it_stopped_whatever_was_deleted_meanwhile(log: TaskAnswers) -> None:
    keep(log, 1, 2, 3)
    read = log.after(0, 2)
    assert [row.request_id for row in read] == ["req-1", "req-2"]
    assert log.trim(1e9, 9).result(30) == 3 and log.after(0) == []
    # The place of what is gone is given to nobody else: a reader would pass over it.
    keep(log, 4)
    assert requests(log, log.last_id() - 1) == requests(log, read[-1].id) == ["req-4"]


def test_a_task_is_read_apart_from_others_and_from_another_tenants_of_its_name(log: TaskAnswers) -> None:
    keep(log, 1, 2)
    keep(log, 3, slot="m/mood")
    keep(log, 4, tenant="b2", student_label=None, answered_by="student", label=None)
    assert requests(log, tenant="a1", slot="m/intent") == ["req-1", "req-2"]
    assert requests(log, limit=1, tenant="a1", slot="m/mood") == ["req-3"]
    assert requests(log, tenant="b2") == ["req-4"]
    assert [row.request_id for row in log.uncertain("b2", "m/intent", 9)] == ["req-4"]
    assert log.training_rows("b2", "m/intent", 9) == [] and log.labelled("b2", "m/intent") == 0
    assert log.of_request("b2", "req-1") is None
    assert not log.label("b2", "req-1", "order", at_s=1.0).result(30)
    assert sum(count.count for count in log.counts("a1", "m/intent")) == 2


def test_whose_key_or_who_is_forgotten_is_gone_with_every_label_of_theirs(log: TaskAnswers) -> None:
    keep(log, 1, contributor="k1/ann")
    keep(log, 2, contributor="k1/")
    keep(log, 3, contributor="k2/ann")
    keep(log, 4, tenant="b2", contributor="k1/ann")
    log.label("a1", "req-1", "order", at_s=2000.0).result(30)
    assert log.forget_contributor("a1", "k1/ann").result(30) == 2
    assert requests(log) == ["req-2", "req-3", "req-4"]
    assert log.forget_contributor("a1", "k1/").result(30) == 1
    assert log.forget_tenant("b2").result(30) == 1
    assert requests(log) == ["req-3"]


def test_what_a_student_saved_is_what_the_teacher_would_have_charged_less_what_was_charged(
    log: TaskAnswers, either: Database
) -> None:
    charged = RequestLog(either)
    for number in (1, 2, 3):
        changes = {"cost_usd": 0.0, "reference_cost_usd": 0.25, "tenant": "b2" if number == 3 else "a1"}
        charged.record(request_record(number, **changes)).result(30)
    keep(log, 1, 3, answered_by="student", label=None)
    keep(log, 2)
    assert log.saved_usd("a1", "m/intent") == 0.25
    assert log.saved_usd("a1", "m/intent", since_s=5000.0) == log.saved_usd("b2", "m/intent") == 0.0


def test_periods_are_counted_apart(log: TaskAnswers) -> None:
    keep(log, 1, 2, 101)
    counts = log.counts("a1", "m/intent", step_s=100.0)
    assert sorted((count.start_s, count.count) for count in counts) == [(1000.0, 2), (1100.0, 1)]
