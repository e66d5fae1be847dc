"""What a task's takeover makes of the log: who was compared, who only counts, and what it only listens to."""

from __future__ import annotations

from dataclasses import replace

from router.tasks.takeover import Takeover
from router.tasks.task import Budget, Task
from store.records import TaskAnswer

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
