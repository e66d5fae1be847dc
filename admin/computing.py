"""Computes what a page has no time to wait for: one at a time, in the background, each question once, and keeps the answers.

A page asks what is known now and is answered at once; when that changes, `changes` does, which wakes the pages that show it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from cachetools import LRUCache

_NICENESS = 4
"""Little: a thread that waits long for a core may hold the interpreter meanwhile, and every page with it."""
_MOST_KEPT = 64
_MOST_WAITING = 4
_FRESH_S = 300.0

Question = TypeVar("Question", bound=Hashable)
Told = Callable[[str, float], None]
"""Told by a computation where it is: a few words, and the share that is done. Raises Stopped when the process ends."""


class TooMuchAsked(Exception):
    """Others wait for what they asked already."""


class Stopped(Exception):
    """The process ends: the computation is not to go on."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one question now."""

    computing: bool
    """Whether it is being computed, or waits for its turn; an older result may be there meanwhile."""
    doing: str = ""
    """Where it is, in a few words."""
    done: float = 0.0
    """0 to 1; a rough share, no promise about time."""
    result: dict[str, Any] | None = None
    problem: Exception | None = None
    """Why there is none."""
    at_s: float | None = None
    """When the result or the problem came about, Unix seconds."""


class Computations(Generic[Question]):
    """One thread of low priority. `compute` blocks it, for seconds."""

    def __init__(
        self,
        compute: Callable[[Question, Told], dict[str, Any]],
        name: str,
        *,
        fresh_s: float = _FRESH_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._compute = compute
        self._fresh_s = fresh_s
        self._clock = clock
        self._threads = ThreadPoolExecutor(1, thread_name_prefix=name, initializer=gently)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._kept: LRUCache[Question, Known] = LRUCache(_MOST_KEPT)
        self._under_way: dict[Question, Future[None]] = {}
        """Apart from what is kept, so that nothing can push a question out and have it computed twice at once."""
        self.changes = 0
        """Another number whenever anything that `look` tells may have changed."""

    def look(self, question: Question, *, begin: bool = True) -> Known:
        """What is known now; never blocks. `begin`: have it computed if nothing is known, or nothing fresh.

        Raises TooMuchAsked when it is to begin and too many wait; never for what is known or under way.
        """
        with self._lock:
            known = self._kept.get(question)
            if question in self._under_way:
                return known or Known(computing=True)
            if not begin or self._stop.is_set():
                return known or Known(computing=False)
            if known is not None and known.at_s is not None and self._clock() - known.at_s < self._fresh_s:
                return known
            if len(self._under_way) >= _MOST_WAITING:
                if known is not None:
                    return known
                raise TooMuchAsked("others wait for their answers already; try again in a moment")
            ahead = len(self._under_way)
            waits = f"waiting for {ahead} other{'s' if ahead > 1 else ''}" if ahead else "beginning"
            known = replace(known or Known(True), computing=True, doing=waits, done=0.0)
            self._kept[question] = known
            self._under_way[question] = self._threads.submit(self._run, question)
            return known

    @property
    def busy(self) -> bool:
        """Whether anything is being computed."""
        return bool(self._under_way)

    def settled(self, question: Question, timeout_s: float) -> Known:
        """What is known once it is computed: for whoever has the time. Raises TimeoutError."""
        with self._lock:
            future = self._under_way.get(question)
        if future is not None:
            future.result(timeout_s)
        return self.look(question, begin=False)

    def close(self) -> None:
        """Begin no further computation, and wait for the one under way to stop at its next step."""
        self._stop.set()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _run(self, question: Question) -> None:
        def told(doing: str, done: float) -> None:
            if self._stop.is_set():
                raise Stopped
            with self._lock:
                known = self._kept.get(question) or Known(True)
                self._kept[question] = replace(known, computing=True, doing=doing, done=done)
                self.changes += 1

        result, problem = None, None
        try:
            result = self._compute(question, told)
        except Exception as error:
            problem = error
        with self._lock:
            self._kept[question] = Known(False, result=result, problem=problem, at_s=self._clock())
            self._under_way.pop(question, None)
            self.changes += 1


def gently() -> None:
    """Give the calling thread alone a low priority, where the system can: whoever is answered has the cores first."""
    if hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
