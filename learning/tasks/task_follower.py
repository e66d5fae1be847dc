"""Tells the matching of requests which tasks are listed, enabled and paused: a worker knows within a second."""

from __future__ import annotations

from collections.abc import Sequence

from router.tasks.matching import Tasks
from store.changes import LOOK_EVERY_S, Follower
from store.tasks.tasks import KnownTasks


class TaskFollower(Follower):
    """Follows the list."""

    def __init__(
        self, known: KnownTasks, tasks: Sequence[Tasks], *, look_every_s: float = LOOK_EVERY_S
    ) -> None:
        """Reads the list, which blocks."""
        super().__init__("tasks", look_every_s)
        self._known = known
        self._tasks = tuple(tasks)
        self._seen = -1
        # Here, and not with the thread: that is begun on an event loop.
        self.look()

    def look(self) -> None:
        """See Follower."""
        generation = self._known.generation()
        if generation == self._seen:
            return
        rows = self._known.all()
        for tasks in self._tasks:
            tasks.follow(rows)
        self._seen = generation
