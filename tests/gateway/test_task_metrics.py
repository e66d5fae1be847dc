"""Series of tasks: who answered and whether it was the same, under names that clients cannot multiply."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry

from engines.prediction import Prediction
from gateway.task_metrics import TaskMetrics
from router.plan import Attempt, Plan
from router.tasks.task import Posed, Task
from tests.finished import finished

PREDICTED = Prediction(1, ("a", "b"), (-0.1, -2.3), 0, "a")


def counted(metrics: CollectorRegistry, series: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels.values()): sample.value
        for family in metrics.collect()
        for sample in family.samples
        if sample.name == series
    }


def test_answers_are_counted_by_who_gave_them_and_made_up_names_share_a_series() -> None:
    registry = CollectorRegistry()
    metrics = TaskMetrics(registry)

    def ended(source: str = "configured", name: str = "intent", checked: bool = False, **fields: Any) -> None:
        posed = Posed(Task(name, "t", "m"), "x", source)
        plan = Plan((Attempt("large"),), "fixed", "1", "fixed", posed=posed, checked=checked)
        metrics.ended(finished(plan=plan, **({"attempt": Attempt("large"), "from_reference": True} | fields)))

    ended()
    ended(checked=True, bypassed=["student:TimeoutError"])
    ended(attempt=Attempt("student", prediction=PREDICTED), from_reference=False)
    ended(from_reference=False)
    for number in range(3):
        ended("header", f"made-up-{number}")
    assert counted(registry, "understudy_task_answers_total") == {
        ("m", "intent", "teacher"): 1,
        ("m", "intent", "check"): 1,
        ("m", "intent", "student"): 1,
        ("m", "intent", "other"): 1,
        ("m", "(header)", "teacher"): 3,
    }
    assert counted(registry, "understudy_task_bypassed_total") == {("m", "intent"): 1}
    metrics.ended(finished(plan=None))


def test_labels_are_compared_as_they_are_learnt() -> None:
    registry = CollectorRegistry()
    metrics = TaskMetrics(registry)
    posed = Posed(Task("intent", "t", "m"), "x")
    for teacher, student in (("A.", "a"), ("b", "a"), (None, "a"), ("a", None)):
        metrics.taught(posed, teacher, student)
    assert counted(registry, "understudy_task_compared_total") == {
        ("m", "intent", "same"): 1,
        ("m", "intent", "differs"): 1,
        ("m", "intent", "no_label"): 1,
    }
