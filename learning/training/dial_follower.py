"""Applies the settings that operators change at run time: a worker uses them within a second, and no request waits for
it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from learning.poller import LOOK_EVERY_S, Poller
from router.dials import Dials
from store.learned.dials import TurnedDials, TurnedDialsLog

log = structlog.get_logger(__name__)

Apply = Callable[[Dials], None]


class DialFollower(Poller):
    """Polls the log of changed dials on its own thread, between `start` and `stop`."""

    def __init__(
        self,
        dials: TurnedDialsLog,
        models: Mapping[str, Apply],
        *,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        """Applies the dials in force, which blocks for a read of each.

        `models`: by served model, called with its dials when they change; on this thread, so it must be quick.
        """
        super().__init__("dials", look_every_s)
        self._dials = dials
        self._models = dict(models)
        self._applied: dict[str, Dials] = {}
        self._seen = -1
        # Here, and not with the thread: that is begun on an event loop.
        self.look()

    def look(self) -> None:
        """See Poller. The applied dials stay in force in this process after the last one."""
        generation = self._dials.generation()
        if generation == self._seen:
            return
        for model, apply in self._models.items():
            row = self._dials.in_force(model)
            dials = _dials_of(row) if row is not None else Dials()
            if dials != self._applied.get(model, Dials()):
                apply(dials)
                self._applied[model] = dials
                log.info("dials_turned", model=model, dials=dials.turned())
        self._seen = generation


def _dials_of(row: TurnedDials) -> Dials:
    return Dials(row.preference, row.theta, row.m, row.max_examples)
