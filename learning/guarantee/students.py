"""Tells every task's takeover what its log holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import structlog

from learning.guarantee.follower import AT_ONCE, LogFollower
from router.guarantee.evidence import Turned
from router.tasks.takeover import Takeover, Takeovers
from router.tasks.task import Task
from store.changes import LOOK_EVERY_S
from store.records import TaskAnswer
from store.tasks.answers import TaskAnswers

log = structlog.get_logger(__name__)


class EvidenceFollower(LogFollower[tuple[str, str], Takeover]):
    """Told are those of every task, by tenant and slot, that a request came for."""

    def __init__(
        self,
        answers: TaskAnswers,
        takeovers: Takeovers,
        *,
        look_every_s: float = LOOK_EVERY_S,
        says: bool = True,
    ) -> None:
        """`says`: whether what is taken over or taken back is written to the log."""
        super().__init__("task-evidence", look_every_s)
        self._answers = answers
        self._takeovers = takeovers
        self._says = says

    def _last_id(self) -> int:
        return self._answers.last_id()

    def _hearers(self) -> Iterable[tuple[tuple[str, str], Takeover]]:
        return self._takeovers.all()

    def _rows(self, key: tuple[str, str], after: int) -> Sequence[TaskAnswer]:
        tenant, slot = key
        return self._answers.after(after, AT_ONCE, tenant=tenant, slot=slot, content=False)

    def _tell(self, key: tuple[str, str], hearer: Takeover, row: TaskAnswer, *, live: bool) -> None:
        turned = hearer.count(row)
        if turned is not None and self._says:
            _say(hearer.task, turned, live=live)


def _say(task: Task, turned: Turned[float], *, live: bool) -> None:
    """One line for each change; what happened before the start is for those who look closely."""
    tell = log.info if live else log.debug
    tell(
        "student_opened" if turned.opened else "student_closed",
        tenant=task.tenant,
        model=task.model,
        task=task.name,
        confidence=round(turned.way, 3),
        compared=turned.compared,
        lower=round(turned.lower, 3),
    )
