"""Follows the dials that operators turn: a worker decides by them within a second, and no request waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from router.dials import Dials
from store.learned.dials import TurnedDials

log = structlog.get_logger(__name__)

_LOOK_EVERY_S = 0.25

Turn = Callable[[Dials], None]


class Turned(Protocol):
    """What is needed of store.learned.dials.TurnedDialsLog."""

    def in_force(self, model: str) -> TurnedDials | None: ...

    def changed(self) -> bool: ...


class DialFollower:
    """Owns its thread between `start` and `stop`."""

    def __init__(
        self, turned: Turned, models: Mapping[str, Turn], *, look_every_s: float = _LOOK_EVERY_S
    ) -> None:
        """`models`: what is told of each served model's dials, by name; from this thread, so it must be quick."""
        self._turned = turned
        self._models = dict(models)
        self._look_every_s = look_every_s
        self._known: dict[str, Dials] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dials", daemon=True)

    def start(self) -> None:
        """Set the dials that are in force, then follow them. Blocks for one look."""
        self._turned.changed()
        self._look()
        self._thread.start()

    def stop(self) -> None:
        """End the thread. What is in force stays so in this process."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._look_every_s):
            try:
                if self._turned.changed():
                    self._look()
            except Exception as error:
                log.error("dials_failed", error=error)

    def _look(self) -> None:
        for model, turn in self._models.items():
            row = self._turned.in_force(model)
            dials = Dials() if row is None else Dials(row.preference, row.theta, row.m, row.max_examples)
            if dials != self._known.get(model, Dials()):
                turn(dials)
                self._known[model] = dials
                log.info("dials_turned", model=model, dials=dials.turned())
