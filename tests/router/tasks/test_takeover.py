"""What a task's takeover makes of the log: who was compared, who only counts, and what it only listens to."""

from __future__ import annotations

from dataclasses import replace

from router.proving.standing import Proof
from router.tasks.takeover import Takeover
from router.tasks.task import Budget, Task
from store.records import ALL_TO_TEACHER, DRAWN, TaskAnswer

ROW = TaskAnswer(
    "a1", "m/intent", "r", 100.0, "teacher", label="refund", student_label="refund", confidence=0.9, version=1
)


def takeover(**task: object) -> Takeover:
    return Takeover(
        replace(Task("intent", "a1", "m"), **task), teacher_answers_rest=True, clock=lambda: 100.0
    )  # type: ignore[arg-type]


def test_a_sample_of_another_engines_requests_proves_nothing_and_is_no_request() -> None:
    made, alone = takeover(), takeover()
    for number in range(200):
        row = replace(ROW, request_id=f"r{number}")
        for each in (made, alone):
            each.count(row)
        made.count(replace(row, answered_by="sample"))
    assert made.standing == alone.standing and made.standing.compared > 0


def test_a_sample_that_disagrees_more_than_expected_is_drift() -> None:
    made = takeover()
    for number in range(40):
        made.count(replace(ROW, request_id=f"r{number}", answered_by="sample", label="order"))
    assert made.drifting


def test_what_another_engine_answered_is_a_request_and_no_call() -> None:
    made = takeover(budget=Budget(share=0.5))
    for number in range(40):
        made.count(replace(ROW, request_id=f"r{number}", answered_by="other", label=None))
    assert made.standing.compared == 0 and made.budget_share == 0.5
    for number in range(100):
        made.count(replace(ROW, request_id=f"t{number}"))
    assert made.budget_share == 0.0


def opens_after(small_may_answer: bool, checked: int, share: float) -> int:
    """Requests until the student answers, which the teacher always agrees with. `share`: of requests with that mark."""
    made = Takeover(Task("intent", "a1", "m"), teacher_answers_rest=not small_may_answer, clock=lambda: 100.0)
    for number in range(5000):
        row = replace(ROW, confidence=0.99, request_id=f"r{number}")
        made.count(replace(row, checked=checked if number * share % 1 < share else 0))
        if made.standing.threshold is not None:
            return number
    raise AssertionError("it never opened")


def test_while_all_is_the_teachers_every_answer_is_evidence() -> None:
    alone = opens_after(False, 0, 1.0)
    assert opens_after(True, ALL_TO_TEACHER, 1.0) == alone
    assert opens_after(True, DRAWN, 0.2) > alone
    assert opens_after(True, ALL_TO_TEACHER, 0.2) > alone, "what a small engine may have answered is none"


def test_all_is_the_teachers_where_every_scope_of_the_task_is_shut() -> None:
    made = takeover()
    shut, opened = (Proof("r", (), 1.0, scope, shut=scope == "a") for scope in "ab")
    assert made.all_to_teacher(shut) and not made.all_to_teacher(opened)
    assert not made.all_to_teacher(shut) and not made.all_to_teacher(None)
    assert made.all_to_teacher(replace(opened, shut=True)) and made.all_to_teacher(shut)
