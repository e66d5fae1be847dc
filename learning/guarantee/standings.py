"""Reads the standing of tasks' students for pages and reports: from the store alone, to the same end as in the workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from learning.guarantee.students import EvidenceFollower
from router.tasks.promise import Standing
from router.tasks.takeover import Takeovers
from router.tasks.task import Task
from store.tasks.answers import TaskAnswers

_WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class TaskStanding:
    """One task's."""

    standing: Standing
    drifting: bool
    """True if the teacher disagrees more often than it did."""
    budget_share: float | None
    """The rest of the budget, as a share of the requests to come; None without a budget."""


class TaskReader:
    """Tells its own takeovers what is in the log, on its own thread. Any thread may call it."""

    def __init__(self, answers: TaskAnswers, teacher_answers_rest: Mapping[str, bool]) -> None:
        """`teacher_answers_rest` by served model: see Takeover."""
        self._takeovers = Takeovers(teacher_answers_rest)
        self._follower = EvidenceFollower(answers, self._takeovers, says=False)
        self._thread = ThreadPoolExecutor(1, "task-standings")

    def of(self, tasks: Sequence[Task], *, wait_s: float = _WAIT_S) -> list[TaskStanding] | None:
        """In their order; None if the log takes longer to read than `wait_s` seconds: it is being read, ask again."""
        takeovers = [self._takeovers.of(task) for task in tasks]
        try:
            self._thread.submit(self._follower.read).result(wait_s)
        except TimeoutError:
            return None
        return [TaskStanding(each.standing, each.drifting, each.budget_share) for each in takeovers]

    def close(self) -> None:
        """Ends the thread."""
        self._follower.stop()
        self._thread.shutdown(cancel_futures=True)
