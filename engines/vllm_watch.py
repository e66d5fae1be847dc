"""Polls a server's state while it is in use, at a bounded rate, and forgets readings that are too old.

An engine that nobody asks is not watched either: nothing runs, and nothing is known.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Reading = TypeVar("Reading")


class Watch(Generic[Reading]):
    """Calls `read` every `period_s` seconds from the first `used()` until `idle_s` after the last, in one task of its own.

    `read` must bound its own time. What it raises counts as no reading: it is for the reader to say what is wrong.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[Reading]],
        *,
        period_s: float,
        idle_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._period_s = period_s
        self._idle_s = idle_s
        self._clock = clock
        self._used = 0.0
        self._latest: Reading | None = None
        self._latest_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self.failures = 0
        """Readings that failed so far."""

    @property
    def watching(self) -> bool:
        """Whether the task runs."""
        return self._task is not None and not self._task.done()

    def used(self) -> None:
        """The server is in use: begin to watch, or go on. Costs a microsecond; outside an event loop nothing begins."""
        self._used = self._clock()
        if self.watching:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._task = loop.create_task(self._run(), name="watch")

    def latest(self) -> Reading | None:
        """The last reading; None before any, and once it is older than three periods."""
        if self._latest is None or self._clock() - self._latest_at > 3 * self._period_s:
            return None
        return self._latest

    async def aclose(self) -> None:
        """Stop watching."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        while self._clock() - self._used < self._idle_s:
            try:
                reading = await self._read()
            except Exception:
                self.failures += 1
            else:
                self._latest, self._latest_at = reading, self._clock()
            await asyncio.sleep(self._period_s)
