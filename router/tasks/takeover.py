"""Decides whether a task's student answers a request, by what is proven of it or by a budget; one per task and worker.

What it knows of the past follows from the log alone (learning.guarantee.students): the same in every worker, and after a
restart.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from cachetools import LRUCache

from engines.prediction import Prediction
from router.guarantee.checks import Awaited
from router.guarantee.evidence import Turned
from router.proving.standing import Proof
from router.tasks.budget import Purse
from router.tasks.drift import Drift
from router.tasks.form import normalised
from router.tasks.promise import SHARES, Promise, Standing
from router.tasks.strategies import STRATEGIES, Threshold
from router.tasks.task import Task
from store.records import ALL_TO_TEACHER, DRAWN, TaskAnswer

REST_SHARE = 0.2
"""The share of the requests left by the student that the teacher is asked for if small engines may answer them:
only then is it a fair sample."""
_PENDING_S = 60.0
"""Seconds after which an answer that the log does not tell is no longer awaited: it was not kept."""
_STAGE_SHIFT, _BY_SHIFT = 2, 4
"""Bits of TaskAnswer.checked from which on it holds the place in SHARES, plus 1, and the worker: where the student was to
answer."""
_OVERDUE, _OVERDUE_S = 9, 5.0
"""See Awaited."""

_KNOWN_WRONG = 2_000


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision who answers."""

    by: Literal["student", "teacher", "inner"]
    """`inner`: whoever the policy beneath chooses."""
    checked: int = 0
    """As TaskAnswer.checked, less ALL_TO_TEACHER."""


class Takeover:
    """Any thread may call it."""

    def __init__(
        self,
        task: Task,
        *,
        teacher_answers_rest: bool,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`teacher_answers_rest`: whether the policy beneath sends all that the student leaves to the teacher."""
        self._rest_share = 1.0 if teacher_answers_rest else REST_SHARE
        self._rng = rng or random.Random()
        self._clock = clock
        self._lock = threading.Lock()
        self._promise = Promise(task.max_loss)
        self._pending: deque[float] = deque()
        """When this worker decided what the student was to answer, and the log does not tell yet."""
        self._drift = Drift()
        self._awaited = Awaited(_OVERDUE, _OVERDUE_S)
        self._open_scopes: set[str] = set()
        """Those in which a small engine may answer."""
        self._known_wrong: LRUCache[str, bool] = LRUCache(_KNOWN_WRONG)
        """Requests whose loss is counted: a person who says the same again adds nothing."""
        self.task = task
        self._purse = Purse(task.budget, clock) if task.budget is not None else None
        self._threshold = Threshold(task.threshold)

    def changed(self, task: Task) -> bool:
        """Take over settings that changed; False if what is proven does not hold under them, and another is needed."""
        with self._lock:
            if task.max_loss != self.task.max_loss:
                return False
            if task.budget != self.task.budget:
                return False
            if (task.threshold, task.strategy) != (self.task.threshold, self.task.strategy):
                self._threshold = Threshold(task.threshold)
            self.task = task
            return True

    @property
    def standing(self) -> Standing:
        """Return what is proven; a frozen value."""
        return self._promise.standing

    @property
    def drifting(self) -> bool:
        """Tell if answers or inputs are no longer what they were."""
        return self._drift.found

    @property
    def budget_share(self) -> float | None:
        """Return what is left of the budget, as a share of the requests to come; None if there is no budget."""
        with self._lock:
            return self._purse.share() if self._purse is not None else None

    def decide(self, prediction: Prediction | None, usd: float = 0.0) -> Decided:
        """Decide who answers a request. `prediction`: None if the student cannot tell. `usd`: the teacher's price."""
        with self._lock:
            if prediction is not None:
                self._drift.seen(prediction.version, prediction.distance)
            if self.task.paused or prediction is None:
                decided = Decided("inner")
            elif self._purse is None and self.task.threshold is None:
                decided = self._by_promise(prediction)
            else:
                decided = self._by_budget(prediction)
            if self._purse is not None and decided.by != "student":
                self._purse.call(usd)
            return decided

    def all_to_teacher(self, proof: Proof | None) -> bool:
        """Tell if whatever the student leaves is the teacher's for now, in every scope of the task that was met.

        `proof`: of the policy beneath, for this request.
        """
        if proof is None:
            return False
        with self._lock:
            (self._open_scopes.discard if proof.shut else self._open_scopes.add)(proof.scope)
            return not self._open_scopes

    def _by_promise(self, prediction: Prediction) -> Decided:
        now_s = self._clock()
        while self._pending and self._pending[0] < now_s - _PENDING_S:
            self._pending.popleft()
        share = self._promise.to_answer(prediction.confidence, len(self._pending))
        if share is None:
            fair = self._rest_share < 1 and self._rng.random() < self._rest_share
            return Decided("teacher", DRAWN) if fair else Decided("inner")
        self._pending.append(now_s)
        noted = SHARES.index(share) + 1 << _STAGE_SHIFT | self._promise.by << _BY_SHIFT
        if self._awaited.overdue(now_s) or self._rng.random() < share:
            self._awaited.wish(1.0, now_s)
            return Decided("teacher", noted | DRAWN)
        return Decided("student", noted)

    def _by_budget(self, prediction: Prediction) -> Decided:
        share = self._purse.share() if self._purse is not None else 1.0
        doubt = STRATEGIES[self.task.strategy](prediction, self._rng.random())
        wanted = min(1.0, 2 * share) if self._drift.found else share
        asked = self._threshold.exceeded(doubt, wanted)
        return Decided("inner") if asked and share > 0 else Decided("student")

    def count(self, row: TaskAnswer) -> Turned[float] | None:
        """Count one row of the task's log; in its order. Returns what that changed."""
        with self._lock:
            if row.answered_by == "person":
                return self._corrected(row)
            if row.answered_by == "sample":
                self._compare(row)
                # The request was counted when it was answered, and nobody drew it for the task's own comparisons.
                return None
            by_teacher = row.answered_by == "teacher"
            if self._purse is not None:
                self._purse.count(row.at_s, called=by_teacher, predicted=row.version is not None)
            share = self._promised_share(row)
            if row.answered_by != "student" or share is not None:
                self._promise.request()
            if row.confidence is None or row.version is None:
                return None
            agreed = self._compare(row) if by_teacher else None
            if row.checked & DRAWN:
                self._awaited.told()
            rest_share = 1.0 if row.checked & ALL_TO_TEACHER else self._rest_share
            if not row.checked & DRAWN and rest_share < 1:
                # Nobody drew it for a comparison: it says something of the task, and nothing of the student's share of it.
                agreed = None
            if agreed is False:
                self._known_wrong[row.request_id] = True
            return self._promise.add(row.confidence, agreed, share, rest_share)

    def _promised_share(self, row: TaskAnswer) -> float | None:
        """With which probability the teacher was asked, where the student was to answer by the promise; else None."""
        stage = row.checked >> _STAGE_SHIFT & 3
        if not stage:
            return None
        if self._pending and row.checked >> _BY_SHIFT == self._promise.by:
            self._pending.popleft()
        settled = row.answered_by == "student" or (row.answered_by == "teacher" and row.checked & DRAWN)
        return SHARES[stage - 1] if settled else None

    def _compare(self, row: TaskAnswer) -> bool | None:
        """Tell if the teacher said what the student did; None if the student said nothing."""
        if row.student_label is None or row.confidence is None or row.version is None:
            return None
        # A refusal, or an explanation, is no label: the student's answer would have differed.
        agreed = row.label is not None and normalised(row.label) == normalised(row.student_label)
        self._drift.told(row.version, row.confidence, agreed=agreed)
        return agreed

    def _corrected(self, row: TaskAnswer) -> Turned[float] | None:
        """A person's word outweighs the teacher's where it speaks against the student. Where it speaks for it, it proves
        nothing: who says so was not drawn."""
        if None in (row.label, row.student_label, row.confidence, row.version):
            return None
        assert row.label is not None and row.student_label is not None
        assert row.confidence is not None and row.version is not None
        if normalised(row.label) == normalised(row.student_label) or row.request_id in self._known_wrong:
            return None
        self._known_wrong[row.request_id] = True
        return self._promise.corrected(row.confidence)


class Takeovers:
    """One for each task that a request came for. Any thread may call it."""

    def __init__(self, teacher_answers_rest: Mapping[str, bool]) -> None:
        """`teacher_answers_rest` by served model: see Takeover."""
        self._rest = dict(teacher_answers_rest)
        self._lock = threading.Lock()
        self._all: dict[tuple[str, str], Takeover] = {}

    def of(self, task: Task) -> Takeover:
        """Return the takeover of a task, under its present settings; a new one knows nothing until the log is told to it."""
        key = task.tenant, task.slot
        with self._lock:
            found = self._all.get(key)
            if found is None or (found.task != task and not found.changed(task)):
                rest = self._rest.get(task.model, False)
                found = self._all[key] = Takeover(task, teacher_answers_rest=rest)
            return found

    def all(self) -> list[tuple[tuple[str, str], Takeover]]:
        """By tenant and slot."""
        with self._lock:
            return list(self._all.items())
