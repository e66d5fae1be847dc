"""Series of tasks. They exist only where requests may belong to one."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from router.finished import Finished
from router.tasks.form import normalised
from router.tasks.task import Posed
from store.records import DRAWN

_STUDENT_STAGES = ("pose:", "student:", "task:", "engine:student")


class TaskMetrics:
    """Counters of one process. Clients may make up names of tasks: all that the configuration does not name share one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.answers = Counter(
            "understudy_task_answers",
            "Answers to requests of tasks, by who gave them.",
            ["model", "task", "by"],
            registry=registry,
        )
        self.compared = Counter(
            "understudy_task_compared",
            "Answers of the teacher that the student had predicted, by whether they have the same label.",
            ["model", "task", "result"],
            registry=registry,
        )
        self.bypassed = Counter(
            "understudy_task_bypassed",
            "Requests of tasks whose student was late or broken, and was done without.",
            ["model", "task"],
            registry=registry,
        )

    def ended(self, finished: Finished) -> None:
        """A request was answered. Nothing where it belonged to no task, or memory answered."""
        plan = finished.plan
        if plan is None or plan.posed is None or finished.attempt is None:
            return
        by = "student" if finished.by_student else "teacher" if finished.from_reference else "other"
        self.answers.labels(
            *_of(plan.posed), "check" if plan.checked & DRAWN and by == "teacher" else by
        ).inc()
        if any(name.startswith(_STUDENT_STAGES) for name in finished.bypassed):
            self.bypassed.labels(*_of(plan.posed)).inc()

    def taught(self, posed: Posed, label: str | None, student_label: str | None) -> None:
        """The teacher answered; the labels are None where there is none."""
        if student_label is None:
            return
        same = label is not None and normalised(label) == normalised(student_label)
        result = "same" if same else "no_label" if label is None else "differs"
        self.compared.labels(*_of(posed), result).inc()


def _of(posed: Posed) -> tuple[str, str]:
    named = posed.source == "configured"
    return posed.task.model, posed.task.name if named else f"({posed.source})"
