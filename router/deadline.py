"""Limits how long a request waits for work on another thread: by a setting, else by a multiple of what it takes here.

What it takes is measured on this machine, whenever nobody else waits for the same kind of work: the 95 % quantile of these
times, followed by steps (Ma, Muthukrishnan and Sandler 2013, "Frugal Streaming for Estimating Quantiles", in proportion
rather than by one). The multiple leaves room for others before it in the queue, the bounds for a first measurement that
came by chance.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LEAST_S, MOST_S = 0.1, 0.5
"""Bounds of a measured deadline. People notice a second; engines take tenths of one to answer anything."""
_TIMES = 8.0
_DOWN = 0.99
_UP = _DOWN**-19
"""At the quantile 19 in 20 are not above it: one step up makes good so many down."""
_HELD_S = 0.005
"""A timer that comes later than this was held up with all else on the event loop."""


class Deadline:
    """The measured time of one kind of work; on one event loop."""

    def __init__(self) -> None:
        self._takes_s = 0.0
        self._waiting = 0
        self._longest = 0.0

    @property
    def measured_s(self) -> float:
        """The deadline by what was measured so far, in seconds."""
        return min(MOST_S, max(LEAST_S, _TIMES * self._takes_s))

    def longest(self) -> float:
        """The longest wait beside another since this was last asked, as a share of the measured deadline."""
        longest, self._longest = self._longest, 0.0
        return longest

    def took(self, seconds: float) -> None:
        """So long did it take, with nothing else in its way."""
        if not self._takes_s:
            self._takes_s = seconds
        else:
            self._takes_s *= _UP if seconds > self._takes_s else _DOWN

    async def run(
        self, executor: Executor, call: Callable[P, T], set_s: float | None, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return what `call` gives on a thread of the executor; see `wait`. It is not begun any more once it is late."""
        work = executor.submit(call, *args, **kwargs)
        try:
            return await self.wait(work, set_s)
        finally:
            work.cancel()

    async def wait(self, work: Future[T], set_s: float | None) -> T:
        """Return what `work` gives. Raises as it does, and TimeoutError after `set_s` seconds (None: the measured ones).

        Where the event loop itself was held up meanwhile, the work gets so much longer, once.
        """
        began_s, alone = time.monotonic(), not self._waiting
        waiting = _Waiting(work, self.measured_s if set_s is None else set_s)
        self._waiting += 1
        try:
            await waiting.over
            if alone:
                self.took(time.monotonic() - began_s)
            return work.result()
        finally:
            waiting.timer.cancel()
            self._waiting -= 1
            if not alone:
                self._longest = max(self._longest, (time.monotonic() - began_s) / self.measured_s)


class _Waiting:
    """One caller's wait: `over` once the work is done, or late (TimeoutError)."""

    __slots__ = ("_due_s", "_limit_s", "_loop", "_work", "over", "timer")

    def __init__(self, work: Future[Any], limit_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._work = work
        self.over: asyncio.Future[None] = self._loop.create_future()
        self._limit_s = limit_s
        self._due_s = time.monotonic() + limit_s
        self.timer = self._loop.call_later(limit_s, self._due, True)
        work.add_done_callback(self._wake)

    def _wake(self, work: Future[Any]) -> None:
        # The loop may be closed when work ends that nobody waits for any more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._done)

    def _done(self) -> None:
        if not self.over.done():
            self.over.set_result(None)

    def _due(self, again: bool) -> None:
        held_s = time.monotonic() - self._due_s
        if self._work.done():
            # Its end waits behind this timer.
            self._done()
        elif again and held_s > _HELD_S:
            self.timer = self._loop.call_later(held_s, self._due, False)
        elif not self.over.done():
            self.over.set_exception(TimeoutError(f"not done within {self._limit_s * 1000:g} ms"))
