"""How much feedback a key may give per minute. Counted in this process: with several workers each counts for itself."""

from __future__ import annotations

import time
from typing import NamedTuple

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter


class Allowance(NamedTuple):
    """Whether one more is allowed, and if not, in how many seconds it is."""

    allowed: bool
    retry_after_s: float


class FeedbackRate:
    """A fixed window of a minute per giver. Keeps nothing of a giver for longer than that."""

    def __init__(self, per_minute: int) -> None:
        self._limit = RateLimitItemPerMinute(per_minute)
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

    def take(self, giver: str) -> Allowance:
        """Count one more of a giver's. Microseconds; safe from any thread."""
        if self._limiter.hit(self._limit, giver):
            return Allowance(True, 0.0)
        reset_s = self._limiter.get_window_stats(self._limit, giver).reset_time
        return Allowance(False, max(1.0, reset_s - time.time()))
