"""How much judging may cost within an hour and within a day. Money is reserved before it is spent, so that a cap holds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

_HOUR_S, _DAY_S = 3600.0, 86_400.0
_MINUTE_S = 60.0


class Spend:
    """Sliding windows of one process, to the minute. In memory: a process that starts again starts from `spent_usd`.

    For the event loop: nothing here blocks, and nothing is safe to call from other threads.
    """

    def __init__(
        self,
        max_usd_per_day: float,
        max_usd_per_hour: float | None = None,
        *,
        spent_usd: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`spent_usd`: what was spent already within the last day, by this process' predecessors."""
        self._per_day = max_usd_per_day
        self._per_hour = max_usd_per_day if max_usd_per_hour is None else max_usd_per_hour
        self._clock = clock
        self._reserved = 0.0
        self._minutes: deque[tuple[float, float]] = deque()
        """(end of the minute, US dollars), oldest first."""
        if spent_usd > 0:
            self._minutes.append((self._end_of_minute(), spent_usd))

    def reserve(self, usd: float) -> bool:
        """Set that much aside; False, and nothing is, where a cap would not hold should all of it be spent."""
        within_hour, within_day = self.spent()
        if (
            within_hour + self._reserved + usd > self._per_hour
            or within_day + self._reserved + usd > self._per_day
        ):
            return False
        self._reserved += usd
        return True

    def settle(self, reserved_usd: float, spent_usd: float) -> None:
        """Give back what was reserved, and book what was spent of it."""
        self._reserved = max(0.0, self._reserved - reserved_usd)
        if spent_usd <= 0:
            return
        end = self._end_of_minute()
        if self._minutes and self._minutes[-1][0] == end:
            spent_usd += self._minutes.pop()[1]
        self._minutes.append((end, spent_usd))

    def spent(self) -> tuple[float, float]:
        """US dollars booked within the last hour and within the last day."""
        now = self._clock()
        while self._minutes and self._minutes[0][0] < now - _DAY_S:
            self._minutes.popleft()
        within_day = sum(usd for _, usd in self._minutes)
        within_hour = sum(usd for end, usd in self._minutes if end >= now - _HOUR_S)
        return within_hour, within_day

    def _end_of_minute(self) -> float:
        # What was spent at its beginning counts until the whole minute is over: never too early.
        return (self._clock() // _MINUTE_S + 1) * _MINUTE_S
