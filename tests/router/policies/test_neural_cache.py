"""Who answers a task's request: a student that is proven, else whoever the policy beneath chooses; nothing that
fails matters."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engines.chat import ChatRequest
from engines.prediction import Prediction
from router.plan import Ask, Attempt, Plan
from router.policies.fixed import Fixed
from router.policies.neural_cache import NeuralCache
from router.proving.standing import Proof
from router.tasks.takeover import Takeover
from router.tasks.task import Budget, Posed, Task
from store.records import ALL_TO_TEACHER, DRAWN, TaskAnswer, Vector

CHAT = ChatRequest(
    b"{}", {}, "m", [{"role": "user", "content": "so happy"}], stream=False, include_usage=False
)
TASK = Task("mood", "t", "m", strategy="margin")


class GivenEmbedder:
    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure

    async def embed(self, text: str) -> Vector:
        if self.failure:
            raise self.failure
        return np.ones(4, np.float32) / 2


class GivenStudent:
    """As router.tasks.student.Student, with the given confidence."""

    def __init__(
        self,
        confidence: float = 0.99,
        *,
        failure: Exception | None = None,
        takes_s: float = 0.0,
        ours: bool = True,
        quick: bool = False,
    ) -> None:
        self.confidence, self.failure, self.takes_s, self.ours = confidence, failure, takes_s, ours
        self.quick = quick
        self.threads: list[str] = []

    def predict(self, input: str, vector: Vector, version: int, seen: object = None) -> Prediction:
        self.threads.append(threading.current_thread().name)
        end_s = time.thread_time() + self.takes_s
        while time.thread_time() < end_s:
            pass
        if self.failure:
            raise self.failure
        logs = (math.log(self.confidence), math.log(1 - self.confidence))
        return Prediction(version, ("good", "bad"), logs, 0, "Good.", in_domain=self.ours)


class Given:
    """A policy with a student; `proven`: requests by which the log has shown that it is good."""

    def __init__(
        self, student: GivenStudent | None, task: Task = TASK, *, proven: int = 1_400, **more: Any
    ) -> None:
        self.takeover = Takeover(task, teacher_answers_rest=True)
        for number in range(proven):
            self.takeover.count(told(number))
        members = () if student is None else ((7, student),)
        self.students = type("Students", (), {"of": lambda _, task: members})()
        self.executor = ThreadPoolExecutor(1)
        self.policy = NeuralCache(
            more.pop("inner", Fixed(("large", "small"))),
            ("small", "large"),
            more.pop("posed", lambda ask: Posed(task, "so happy")),
            more.pop("embedder", GivenEmbedder()),
            self.students,
            lambda task: self.takeover,
            self.executor,
            **{"deadline_s": 5.0, **more},
        )

    def decide(self, **ask: Any) -> Plan:
        return asyncio.run(self.policy.decide(Ask(CHAT, "t", **ask)))

    def engines(self, count: int = 40, **ask: Any) -> list[str]:
        return [self.decide(**ask).attempts[0].engine for _ in range(count)]


def told(number: int) -> TaskAnswer:
    return TaskAnswer(
        "t",
        TASK.slot,
        f"r{number}",
        1e9,
        "teacher",
        label="good",
        student_label="good",
        confidence=0.99,
        version=7,
    )


def test_a_proven_student_answers_the_teacher_stands_in_and_some_are_checked() -> None:
    given = Given(GivenStudent())
    plans = [given.decide() for _ in range(60)]
    by_student = [plan for plan in plans if plan.reason == "student"]
    checks = [plan for plan in plans if plan.reason == "student_check"]
    assert len(by_student) > 30 and len(by_student) + len(checks) == 60
    plan = by_student[0]
    assert [each.engine for each in plan.attempts] == ["student", "large", "small"]
    assert plan.attempts[0].prediction == plan.prediction and plan.posed is not None
    assert all(plan.checked and plan.attempts[0].engine == "large" and plan.prediction for plan in checks)


def test_before_it_is_proven_or_where_it_is_unsure_or_the_input_is_not_its_own_the_teacher_answers() -> None:
    assert set(Given(GivenStudent(), proven=0).engines()) == {"large"}
    assert set(Given(GivenStudent(0.55)).engines()) == {"large"}
    assert set(Given(GivenStudent(ours=False)).engines()) == {"large"}
    assert set(Given(GivenStudent(), replace(TASK, paused=True)).engines()) == {"large"}
    assert set(Given(None).engines()) == {"large"}
    assert Given(GivenStudent(), proven=0).decide().prediction is not None, "every answer is a comparison"


@pytest.mark.parametrize("ask", [{"forced": True}, {"anonymous": True}, {"preference": 1.0}])
def test_a_client_that_steers_or_is_unknown_is_never_given_a_students_answer(ask: dict[str, Any]) -> None:
    assert set(Given(GivenStudent()).engines(**ask)) == {"large"}


def test_whatever_is_late_or_broken_is_bypassed_and_said() -> None:
    def broken(ask: Ask) -> Posed | None:
        raise RuntimeError

    for given, stage in (
        (Given(GivenStudent(failure=ValueError("broken"))), "student:ValueError"),
        (Given(GivenStudent(takes_s=0.2), deadline_s=0.005), "student:TimeoutError"),
        (Given(GivenStudent(), embedder=GivenEmbedder(RuntimeError("late"))), "embed:RuntimeError"),
        (Given(GivenStudent(), posed=broken), "pose:RuntimeError"),
    ):
        plan = given.decide()
        assert plan.attempts[0].engine == "large" and plan.bypassed == (stage,)


def test_a_quick_student_predicts_without_a_change_of_threads_until_it_is_slow_once() -> None:
    student = GivenStudent(quick=True)
    given = Given(student, deadline_s=0.05)
    # The loop does not turn while it predicts, so nothing that waits on the loop can make it late.
    assert "student" in given.engines() and set(student.threads) == {threading.current_thread().name}
    student.takes_s, student.threads = 0.1, []
    assert given.decide().bypassed == ("student:TimeoutError",) and not student.quick
    given.decide()
    assert student.threads[0] == threading.current_thread().name != student.threads[1]


def test_a_quick_student_that_fails_is_bypassed() -> None:
    plan = Given(GivenStudent(quick=True, failure=ValueError("broken"))).decide()
    assert plan.attempts[0].engine == "large" and plan.bypassed == ("student:ValueError",)


def test_a_budget_gives_the_teacher_its_share_and_the_student_the_rest() -> None:
    given = Given(GivenStudent(0.6), replace(TASK, budget=Budget(share=0.25), strategy="random"), proven=0)
    engines = []
    for number in range(400):
        plan = given.decide()
        engines.append(plan.attempts[0].engine)
        by = "student" if plan.reason == "student" else "teacher"
        given.takeover.count(replace(told(number), at_s=time.time(), answered_by=by))
    assert 0.15 < engines.count("large") / 400 < 0.35


def test_checks_that_never_come_back_stop_the_student() -> None:
    now = [1000.0]
    given = Given(GivenStudent(), proven=7_000)
    given.takeover._clock = lambda: now[0]
    given.engines(300)
    now[0] += 61
    assert set(given.engines()) == {"large"}
    given.takeover.count(replace(told(1), checked=1))
    assert "student" in given.engines()


def test_requests_of_no_task_are_the_policys_beneath() -> None:
    plan = Given(GivenStudent(), posed=lambda ask: None).decide()
    assert plan.attempts[0].engine == "large" and plan.posed is None


def test_nothing_is_drawn_for_comparison_where_the_student_or_its_check_answers() -> None:
    class Shadowing(Fixed):
        async def decide(self, ask: Ask) -> Plan:
            return replace(await super().decide(ask), shadow=(Attempt("small"),))

    given = Given(GivenStudent(), inner=Shadowing(("large", "small")))
    plans = [given.decide() for _ in range(60)]
    assert {plan.reason for plan in plans} == {"student", "student_check"}
    assert all(plan.shadow == () for plan in plans)
    unsure = Given(GivenStudent(0.55), inner=Shadowing(("large", "small")))
    assert unsure.decide().shadow == (Attempt("small"),)


class Shut(Fixed):
    """A policy whose small engines may answer nothing yet, and are compared."""

    async def decide(self, ask: Ask) -> Plan:
        plan = await super().decide(ask)
        return replace(
            plan, reason="shadow", proof=Proof("r", (), 1.0, "s", shut=True), shadow=(Attempt("small"),)
        )


def test_while_no_small_engine_may_answer_every_request_is_a_fair_comparison_and_small_ones_are_compared() -> (
    None
):
    given = Given(GivenStudent(), inner=Shut(("large", "small")), proven=0)
    given.takeover._rest_share = 0.2
    plans = [given.decide() for _ in range(40)]
    assert all(plan.checked & ALL_TO_TEACHER and plan.shadow and plan.reason == "shadow" for plan in plans)
    assert 0 < sum(plan.checked & DRAWN for plan in plans) < 40
