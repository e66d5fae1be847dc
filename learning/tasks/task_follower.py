"""Tells the matching of requests which tasks are listed, enabled and paused: a worker knows within a second."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import structlog

from router.tasks.matching import Tasks
from store.tasks.tasks import KnownTasks

log = structlog.get_logger(__name__)

_LOOK_EVERY_S = 0.25


class TaskFollower:
    """Polls the list on its own thread, between `start` and `stop`."""

    def __init__(
        self, known: KnownTasks, tasks: Sequence[Tasks], *, look_every_s: float = _LOOK_EVERY_S
    ) -> None:
        self._known = known
        self._tasks = tuple(tasks)
        self._look_every_s = look_every_s
        self._seen = -1
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tasks", daemon=True)

    def start(self) -> None:
        """Read the list, then start the thread. Blocks for one read."""
        self._refresh()
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._look_every_s):
            try:
                self._refresh()
            except Exception as error:
                log.error("tasks_failed", error=error)

    def _refresh(self) -> None:
        generation = self._known.generation()
        if generation == self._seen:
            return
        rows = self._known.all()
        for tasks in self._tasks:
            tasks.follow(rows)
        self._seen = generation
