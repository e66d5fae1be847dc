"""Computes what may still be asked of a task's teacher today (UTC), and the share of coming requests that this suffices for.

Counted from the log, so every worker comes to the same within a second; what this worker decided since counts at once. With
many workers a burst may overrun the budget by what they ask within that second.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from router.tasks.task import Budget

_DAY_S = 86_400.0
_LOG_LATE_S = 2.0
_LEAST_KNOWN_S = 600.0
"""Seconds of a first day after which its pace is taken for the day's."""
_AHEAD = 20
"""Calls by which a share may be ahead of the requests, so that the first can be asked at all."""
_USUAL_FOR = 20


class Purse:
    """The budget of one task. Not thread-safe: its owner locks."""

    def __init__(self, budget: Budget, clock: Callable[[], float] = time.time) -> None:
        self.budget = budget
        self._clock = clock
        self._day = -1
        self._began_s = 0.0
        """When this day's first request came, as far into the day."""
        self._calls = self._requests = self._yesterday = 0
        self._pending: deque[float] = deque()
        self._usd, self._priced = 0.0, 0
        self._begun = budget.share is None
        """A share is one of the requests since the first version: what was asked to train it cannot be asked less."""

    def count(self, at_s: float, *, called: bool, predicted: bool = True) -> None:
        """Count one request of the log. `predicted`: whether there was a student that could tell."""
        self._begun = self._begun or predicted
        if not self._begun:
            return
        self._turn(at_s)
        if at_s // _DAY_S == self._day:
            self._requests += 1
            self._calls += called

    def call(self, usd: float) -> None:
        """The teacher is being asked; `usd`: about what that costs."""
        if self._begun:
            self._pending.append(self._clock())
        # The latest calls weigh most, and the mean is known from the first on.
        self._priced = min(_USUAL_FOR, self._priced + 1)
        self._usd += (usd - self._usd) / self._priced

    def share(self) -> float:
        """b / n: what is left, as a share of the requests that are expected until it is renewed, 0 to 1. 0: nothing
        is left."""
        now = self._clock()
        self._turn(now)
        while self._pending and self._pending[0] < now - _LOG_LATE_S:
            self._pending.popleft()
        calls = self._calls + len(self._pending)
        if self.budget.share is not None:
            ahead = calls - self.budget.share * (self._requests + len(self._pending))
            return self.budget.share if ahead < _AHEAD else 0.0
        left = self._most() - calls
        if left < 1:
            return 0.0
        return min(1.0, left / max(1.0, self._expected(now)))

    def _most(self) -> float:
        """Calls that a day's budget pays for."""
        if self.budget.calls_per_day is not None:
            return float(self.budget.calls_per_day)
        usd = self.budget.usd_per_day or 0.0
        return usd / self._usd if self._usd > 0 else float(usd > 0)

    def _expected(self, now: float) -> float:
        """Requests expected for the rest of the day: at yesterday's pace, or at today's where yesterday is not known."""
        into = now % _DAY_S
        left = _DAY_S - into
        if self._yesterday:
            return self._yesterday * left / _DAY_S
        return self._requests * left / max(_LEAST_KNOWN_S, into - self._began_s)

    def _turn(self, at_s: float) -> None:
        day = int(at_s // _DAY_S)
        if day > self._day:
            self._yesterday = self._requests if day == self._day + 1 else 0
            self._day, self._began_s, self._calls, self._requests = day, at_s % _DAY_S, 0, 0
