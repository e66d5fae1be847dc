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
        self._lease = lease
        self._lock = threading.Lock()
        self._due: dict[Chore, float] = {}
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self.add(chores)
        self._thread = threading.Thread(target=self._run, name="housekeeper", daemon=True)

    def add(self, chores: Sequence[Chore]) -> None:
        """Do these, too, each for the first time when its pause is over. Before `start` or after it, in any thread."""
        with self._lock:
            self._due |= {chore: time.monotonic() + chore.every_s for chore in chores}
        self._woken.set()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the chore at hand, wait for the thread to end, and let another process do the chores."""
        self._stopping.set()
        self._woken.set()
        self._thread.join()
        if self._lease is not None:
            self._lease.release()

    def _run(self) -> None:
        while not self._stopping.is_set():
            with self._lock:
                chore = min(self._due, key=self._due.__getitem__, default=None)
                wait_s = None if chore is None else max(0.0, self._due[chore] - time.monotonic())
            if self._woken.wait(wait_s):
                # Another chore may be due before this one.
                self._woken.clear()
            elif chore is not None:
                self._guarded(chore)

    def _guarded(self, chore: Chore) -> None:
        try:
            self._do(chore)
        except Exception as error:
            log.error("chore_failed", chore=chore.name, error=error)
        with self._lock:
            self._due[chore] = time.monotonic() + chore.every_s

    def _do(self, chore: Chore) -> None:
        if chore.each or self._lease is None:
            chore.run()
        elif self._lease.take():
            with self._lease.holding():
                chore.run()
