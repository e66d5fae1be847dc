"""Tells every task's takeover what the log holds, in the log's order: so all workers know the same, also after a restart."""

from __future__ import annotations

import structlog

from learning.poller import LOOK_EVERY_S, Poller
from router.guarantee.evidence import Turned
from router.tasks.takeover import Takeover, Takeovers
from router.tasks.task import Task
from store.tasks.answers import TaskAnswers

log = structlog.get_logger(__name__)

_AT_ONCE = 500


class EvidenceFollower(Poller):
    """Polls on its own thread between `start` and `stop`. A task that is new to this worker is told all that is kept
    of it."""

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
        self._places: dict[tuple[str, str], tuple[Takeover, int]] = {}
        """By tenant and slot, the last row that was told, and to whom."""
        self._told = -1

    def caught_up(self, timeout_s: float = 5.0) -> bool:
        """Waits until all that is in the log now is told, and returns whether it is. For tests and tools."""
        wanted = self._answers.last_id()
        return self._waited(lambda: self._told >= wanted, timeout_s)

    def look(self) -> None:
        """Tells what was written since the last time; see Poller."""
        last, anything = self._answers.last_id(), self._told
        for key, takeover in self._takeovers.all():
            known, place = self._places.get(key, (None, 0))
            if known is not takeover:
                self._places[key] = takeover, (place := 0)
            if known is not takeover or last > anything:
                self._tell(key, takeover, place, last)
        self._told = last

    def _tell(self, key: tuple[str, str], takeover: Takeover, place: int, last: int) -> None:
        live = place > 0
        tenant, slot = key
        while not self._stopping.is_set():
            rows = self._answers.after(place, _AT_ONCE, tenant=tenant, slot=slot, content=False)
            for row in rows:
                place = row.id
                turned = takeover.count(row)
                if turned is not None and self._says:
                    _say(takeover.task, turned, live=live)
            if len(rows) < _AT_ONCE:
                # Nothing up to here is this task's: it need not be looked through again.
                self._places[key] = takeover, max(place, last)
                return
            self._places[key] = takeover, place


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
        upper=round(turned.upper, 3),
    )
