"""Runs slow computations in the background, one at a time, and caches their results by question.

A page gets the present state at once. `changes` differs whenever a state has changed, which wakes the pages that show it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from cachetools import LRUCache

_TURN_S = 0.0005
"""Instead of 5 ms."""
_NICENESS = 4
"""Low: a thread that waits long for a core may hold the interpreter meanwhile, and every page with it."""
_MOST_KEPT = 64
_MOST_WAITING = 4
_FRESH_S = 300.0

Question = TypeVar("Question", bound=Hashable)
ReportProgress = Callable[[str, float], None]
"""Called by a computation with a few words and the share done, 0 to 1. Raises Stopped when the process ends."""


class TooMuchAsked(Exception):
    """Too many computations are waiting."""


class Stopped(Exception):
    """The process ends: the computation must not continue."""


@dataclass(frozen=True, slots=True)
class ComputationState:
    """The present state of one question."""

    computing: bool
    """Whether it is being computed or waits; an older result may be present."""
    doing: str = ""
    """What the computation is doing, in a few words."""
    done: float = 0.0
    """Approximate share done, 0 to 1."""
    result: dict[str, Any] | None = None
    problem: Exception | None = None
    """Why the last computation gave no result."""
    at_s: float | None = None
    """Unix seconds of the result or the problem."""


class Computations(Generic[Question]):
    """Computes on one thread of low priority. `compute` blocks that thread, for seconds."""

    def __init__(
        self,
        compute: Callable[[Question, ReportProgress], dict[str, Any]],
        name: str,
        *,
        fresh_s: float = _FRESH_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._compute = compute
        self._fresh_s = fresh_s
        self._clock = clock
        self._threads = ThreadPoolExecutor(1, thread_name_prefix=name, initializer=lower_priority)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._kept: LRUCache[Question, ComputationState] = LRUCache(_MOST_KEPT)
        self._under_way: dict[Question, Future[None]] = {}
        """Separate from the cache, so that no question is evicted and computed twice at once."""
        self.changes = 0
        """Differs whenever anything that `state` returns may have changed."""

    def state(self, question: Question, *, begin: bool = True) -> ComputationState:
        """The present state; never blocks. `begin` starts a computation if there is no fresh result.

        Raises TooMuchAsked if a computation must start, there is no older result and too many wait.
        """
        with self._lock:
            known = self._kept.get(question)
            if question in self._under_way:
                return known or ComputationState(computing=True)
            if not begin or self._stop.is_set():
                return known or ComputationState(computing=False)
            if known is not None and known.at_s is not None and self._clock() - known.at_s < self._fresh_s:
                return known
            if len(self._under_way) >= _MOST_WAITING:
                if known is not None:
                    return known
                raise TooMuchAsked("others wait for their answers already; try again in a moment")
            ahead = len(self._under_way)
            waits = (
                f"{ahead} simulation{'s are' if ahead > 1 else ' is'} ahead of it" if ahead else "beginning"
            )
            known = replace(known or ComputationState(True), computing=True, doing=waits, done=0.0)
            self._kept[question] = known
            self._under_way[question] = self._threads.submit(self._run, question)
            return known

    @property
    def busy(self) -> bool:
        """Whether anything is being computed."""
        return bool(self._under_way)

    def wait_for(self, question: Question, timeout_s: float) -> ComputationState:
        """The state after a computation that is under way. Blocks. Raises TimeoutError."""
        with self._lock:
            future = self._under_way.get(question)
        if future is not None:
            future.result(timeout_s)
        return self.state(question, begin=False)

    def close(self) -> None:
        """Starts no further computation, and waits for the present one to stop at its next report."""
        self._stop.set()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _run(self, question: Question) -> None:
        def report(doing: str, done: float) -> None:
            if self._stop.is_set():
                raise Stopped
            with self._lock:
                known = self._kept.get(question) or ComputationState(True)
                now = replace(known, computing=True, doing=doing, done=done)
                self._kept[question] = now
                # Who only looks whether it may go on wakes no page.
                self.changes += now != known

        result, problem = None, None
        try:
            result = self._compute(question, report)
        except Exception as error:
            problem = error
        with self._lock:
            self._kept[question] = ComputationState(False, result=result, problem=problem, at_s=self._clock())
            self._under_way.pop(question, None)
            self.changes += 1


def lower_priority() -> None:
    """Lowers the priority of the calling thread, where the system can, so that answers come first.

    And has this process's threads take turns sooner: each read of the store gives the interpreter away, and a page of twenty
    reads would wait for it twenty times.
    """
    sys.setswitchinterval(_TURN_S)
    if hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
