"""Lets a task's student answer what it is proven on, or what a budget leaves to it; all else goes to the policy beneath.

pose (which task, what input) -> embed -> predict -> decide. A stage that is late or broken is bypassed: then the policy
beneath decides as if there were no tasks. Requests of a client that names its engine, that is anonymous, or that asks
for the best quality at any price (preference 1) are left to it, too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any

from engines.engine import Price
from engines.prediction import Prediction
from router.choosing.reward import expected_reward, weights
from router.embedding.embedder import Embedder
from router.plan import Ask, Attempt, Plan, Policy
from router.policies.stages import Stages
from router.prompt import prompt_tokens
from router.tasks.student import Student, Students, predicted
from router.tasks.takeover import Decided, Takeover
from router.tasks.task import Posed, Task
from store.records import ALL_TO_TEACHER, Vector

STUDENT = "student"
"""Name of the engine that answers with a prediction (engines.student)."""
_BEST_QUALITY = 1.0
_LABEL_TOKENS = 8
_PREDICT_DEADLINE_S = 0.005


@dataclass(frozen=True, slots=True)
class Preferences:
    """The dial where a client does not say its own: of its key, else of the model. 0 (cheapest) to 1 (best)."""

    model: float = 0.5
    keys: dict[str, float] = field(default_factory=dict)

    def of(self, ask: Ask) -> float:
        """The request's."""
        return ask.preference if ask.preference is not None else self.keys.get(ask.key_id or "", self.model)


class NeuralCache:
    """Implements router.plan.Policy around another."""

    def __init__(
        self,
        inner: Policy,
        engines: Sequence[str],
        posed: Callable[[Ask], Posed | None],
        embedder: Embedder,
        students: Students,
        takeovers: Callable[[Task], Takeover],
        executor: Executor,
        *,
        preferences: Callable[[], Preferences] = Preferences,
        price: Price | None = None,
        deadline_s: float = _PREDICT_DEADLINE_S,
    ) -> None:
        """`engines`: of the model, from small to large; the last is the teacher. `price`: the teacher's, for budgets in
        dollars. `executor`: where students predict that are not quick."""
        self.inner = inner
        self.name = inner.name
        self._engines = tuple(engines)
        self._posed = posed
        self._embedder = embedder
        self._students = students
        self._takeovers = takeovers
        self._executor = executor
        self._preferences = preferences
        self._price = price or Price()
        self._deadline_s = deadline_s

    async def decide(self, ask: Ask) -> Plan:
        """See router.plan.Policy."""
        if ask.forced or ask.anonymous:
            return await self.inner.decide(ask)
        stages = Stages()
        posed: Posed | None = None
        with stages.stage("pose"):
            posed = self._posed(ask)
        if posed is None:
            plan = await self.inner.decide(ask)
            if not stages.bypassed:
                plan.stages_s.update(stages.seconds)
                return plan
            return _noting(plan, stages)
        prediction, vector = await self._predict(posed, stages)
        decided, takeover = Decided("inner"), self._takeovers(posed.task)
        with stages.stage("task"):
            if self._preferences().of(ask) < _BEST_QUALITY:
                usd = self._price.compared_usd(prompt_tokens(ask.chat), _LABEL_TOKENS)
                decided = takeover.decide(prediction, usd)
        if decided.by == "student" and prediction is not None:
            return await self._by_student(ask, posed, prediction, decided, vector, stages)
        plan = await self.inner.decide(ask)
        shut = takeover.all_to_teacher(plan.proof)
        checked = decided.checked | ALL_TO_TEACHER * shut
        changes: dict[str, Any] = {"prediction": prediction, "checked": checked}
        if decided.by == "teacher" and not shut:
            reason = "student_check"
            changes |= {"attempts": self._teacher_first(plan), "reason": reason, "choice": None, "shadow": ()}
        return _noting(plan, stages, **_of_task(plan, posed, vector), **changes)

    async def _predict(self, posed: Posed, stages: Stages) -> tuple[Prediction | None, Vector | None]:
        """Return the student's prediction, and the input's embedding if one was wanted.

        No prediction if there is no student, it is late or broken, or the input is not its to answer.
        """
        members: Sequence[tuple[int, Student]] = ()
        found: Prediction | None = None
        with stages.stage("student"):
            members = self._students.of(posed.task)
        if not members:
            return None, None
        vector: Vector | None = None
        with stages.stage("embed"):
            vector = await self._embedder.embed(posed.input)
        if vector is None:
            return None, None
        with stages.stage("student"):
            found = await self._predicted(members, posed, vector)
        return (found if found is not None and found.in_domain else None), vector

    async def _predicted(
        self, members: Sequence[tuple[int, Student]], posed: Posed, vector: Vector
    ) -> Prediction:
        """On the event loop where it is known to take tenths of a millisecond: under load a change of threads takes many
        times as long, and is late. Raises TimeoutError, and what a prediction raises."""
        voting = members if posed.task.strategy == "committee" else members[:1]
        if not all(student.quick for _, student in voting):
            async with asyncio.timeout(self._deadline_s):
                return await asyncio.get_running_loop().run_in_executor(
                    self._executor, predicted, voting, posed.input, vector
                )
        began_s = time.thread_time()
        found = predicted(voting, posed.input, vector)
        if time.thread_time() - began_s > self._deadline_s:
            # Here it could not be stopped. It does not come here again.
            for _, student in voting:
                student.quick = False
            raise TimeoutError
        return found

    async def _by_student(
        self,
        ask: Ask,
        posed: Posed,
        prediction: Prediction,
        decided: Decided,
        vector: Vector | None,
        stages: Stages,
    ) -> Plan:
        """The student's answer; where another policy weighs rewards, only if its own is not lower."""
        stand_ins = tuple(Attempt(engine) for engine in reversed(self._engines))
        plan = Plan(stand_ins, self.name, str(prediction.version), STUDENT)
        if self.inner.name == "in_context":
            plan = await self.inner.decide(ask)
            if self._weighs_more(ask, plan, prediction):
                told = {"prediction": prediction, "checked": decided.checked}
                return _noting(plan, stages, **_of_task(plan, posed, vector), **told)
        return _noting(
            plan,
            stages,
            **_of_task(plan, posed, vector),
            attempts=(Attempt(STUDENT, prediction=prediction), *plan.attempts),
            policy_version=str(prediction.version),
            reason=STUDENT,
            # What a bandit drew is not what happened: nothing is learnt of it.
            probability=1.0,
            choice=None,
            helped=None,
            shadow=(),
            prediction=prediction,
            checked=decided.checked,
        )

    def _weighs_more(self, ask: Ask, plan: Plan, prediction: Prediction) -> bool:
        """Tell if the action that a bandit took is expected to be worth more than the student's answer.

        That costs and takes nothing and is right with its confidence. Exploration is left to requests that the student does
        not answer.
        """
        if plan.choice is None or plan.choice.explored:
            return False
        reference = next(
            (w.quality for w in plan.choice.weighed if w.action.engine == self._engines[-1]), 1.0
        )
        own = expected_reward(
            weights(self._preferences().of(ask)), prediction.confidence * reference, 0.0, 0.0, reference
        )
        return plan.choice.weighed[plan.choice.chosen].reward > own

    def _teacher_first(self, plan: Plan) -> tuple[Attempt, ...]:
        """All of the plan's, the largest engine first, which is the teacher."""
        return tuple(sorted(plan.attempts, key=lambda each: self._engines.index(each.engine), reverse=True))


def _of_task(plan: Plan, posed: Posed, vector: Vector | None) -> dict[str, Any]:
    """The task, and the input's embedding, where the policy beneath made none of its own."""
    if vector is None or plan.vector is not None:
        return {"posed": posed}
    return {"posed": posed, "vector": vector, "embedded_text": posed.input}


def _noting(plan: Plan, stages: Stages, **changes: Any) -> Plan:
    """The plan with these changes, and what the stages took and were done without: copied once."""
    seconds = dict(plan.stages_s)
    for name, took in stages.seconds.items():
        seconds[name] = seconds.get(name, 0.0) + took
    bypassed = (*stages.bypassed, *plan.bypassed)
    return replace(plan, stages_s=seconds, bypassed=bypassed, **changes)
