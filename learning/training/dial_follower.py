"""Applies the settings that operators change at run time: a worker uses them within a second, and no request waits for
it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import structlog

from router.dials import Dials
from store.learned.dials import TurnedDials, TurnedDialsLog

log = structlog.get_logger(__name__)

_LOOK_EVERY_S = 0.25

Apply = Callable[[Dials], None]


class DialFollower:
    """Polls the log of changed dials on its own thread, between `start` and `stop`."""

    def __init__(
        self,
        dials: TurnedDialsLog,
        models: Mapping[str, Apply],
        *,
        look_every_s: float = _LOOK_EVERY_S,
    ) -> None:
        """`models`: by served model, called with its dials when they change; on this thread, so it must be quick."""
        self._dials = dials
        self._models = dict(models)
        self._look_every_s = look_every_s
        self._applied: dict[str, Dials] = {}
        self._seen = -1
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dials", daemon=True)

    def start(self) -> None:
        """Applies the dials in force, then starts the thread. Blocks for one read."""
        self._refresh()
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread. The applied dials stay in force in this process."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._look_every_s):
            try:
                if self._dials.generation() != self._seen:
                    self._refresh()
            except Exception as error:
                log.error("dials_failed", error=error)

    def _refresh(self) -> None:
        generation = self._dials.generation()
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
