"""Timers finer than a millisecond, on one kernel timer.

libuv counts in whole milliseconds, which is half of the lateness that the load generator may have. This module wraps a
single Linux `timerfd` (absolute, CLOCK_MONOTONIC) with a heap of callbacks. Without timerfd it uses the event loop's own
timers.
"""

from __future__ import annotations

import asyncio
import ctypes
import heapq
import os
import sys
import time
from collections.abc import Callable
from itertools import count
from typing import Any

now = time.monotonic

_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK_CLOEXEC = 0o4000 | 0o2000000
_TFD_TIMER_ABSTIME = 1


class _ITimerSpec(ctypes.Structure):
    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


class Alarm:
    """Calls back at absolute `time.monotonic()` times; about 0.1 ms late on an idle core.

    A callback cannot be cancelled: one that is no longer needed must do nothing.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._serial = count()
        self._armed_for = 0.0
        self._closed = False
        self._fd = -1
        if sys.platform == "linux":
            libc = ctypes.CDLL(None, use_errno=True)
            self._fd = libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK_CLOEXEC)
        if self._fd >= 0:
            self._settime = libc.timerfd_settime
            self._spec = _ITimerSpec()
            self._spec_ref = ctypes.byref(self._spec)
            loop.add_reader(self._fd, self._fire)

    def call_at(self, when_s: float, callback: Callable[..., None], *args: Any) -> None:
        """Runs `callback(*args)` once `time.monotonic()` has reached `when_s` (seconds)."""
        heapq.heappush(self._heap, (when_s, next(self._serial), callback, args))
        if not self._armed_for or when_s < self._armed_for:
            self._arm(when_s)

    def close(self) -> None:
        """Drops every callback and closes the kernel timer."""
        self._closed = True
        self._heap.clear()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _arm(self, when_s: float) -> None:
        self._armed_for = when_s
        if self._fd < 0:
            self._loop.call_later(max(0.0, when_s - now()), self._fire)
            return
        spec = self._spec
        spec.value_s = int(when_s)
        # All zeroes would disarm the timer.
        spec.value_ns = max(1, int((when_s - spec.value_s) * 1e9))
        self._settime(self._fd, _TFD_TIMER_ABSTIME, self._spec_ref, None)

    def _fire(self) -> None:
        if self._closed:
            return
        heap = self._heap
        instant = now()
        while heap and heap[0][0] <= instant:
            _, _, callback, args = heapq.heappop(heap)
            callback(*args)
        if self._closed:
            return
        if heap:
            # Setting the timer again also clears its expiration, so it need not be read.
            self._arm(heap[0][0])
            return
        self._armed_for = 0.0
        if self._fd >= 0:
            self._spec.value_s = self._spec.value_ns = 0
            self._settime(self._fd, 0, self._spec_ref, None)
