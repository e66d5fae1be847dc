"""Regular chores of a gateway that remembers, on a thread of their own: write what was counted, drop what is old."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from store.jobs.leases import Lease

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Chore:
    """Something to do every so often. `run` may block; what it raises is logged, and the chore comes round again."""

    name: str
    every_s: float
    run: Callable[[], object]
    each: bool = False
    """Done in every process: else by one of those that share a lease."""


class Housekeeper:
    """Owns its thread between `start` and `stop`."""

    def __init__(self, chores: Sequence[Chore], lease: Lease | None = None) -> None:
        """`lease`: whoever holds it does the chores that are not each process's; None: nobody else does them."""
        self._chores = tuple(chores)
        self._lease = lease
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeper", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the chore at hand, wait for the thread to end, and let another process do the chores."""
        self._stopping.set()
        self._thread.join()
        if self._lease is not None:
            self._lease.release()

    def _run(self) -> None:
        begun = time.monotonic()
        due = {chore: begun + chore.every_s for chore in self._chores}
        while due:
            chore = min(due, key=lambda c: due[c])
            if self._stopping.wait(max(0.0, due[chore] - time.monotonic())):
                return
            try:
                self._do(chore)
            except Exception as error:
                log.error("chore_failed", chore=chore.name, error=error)
            due[chore] = time.monotonic() + chore.every_s

    def _do(self, chore: Chore) -> None:
        if chore.each or self._lease is None:
            chore.run()
        elif self._lease.take():
            with self._lease.holding():
                chore.run()
