"""Compares by equality alone if no judge can be paid, as far as that tells how good a small engine's answers are.

An answer that is not equal may be as good, so it counts for the worst: what is proven by that holds all the more. It only
makes sense where answers mostly are equal, as commands are and essays are not. That is tried first, and what is seen then
becomes no outcome. Whether a comparison counts is settled before anybody looks at it, so what counts is a fair sample.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Hashable

_TRIED, _LATEST = 20, 100
"""Least and most of the latest comparisons that tell whether answers mostly are equal."""
_MOSTLY = 0.9
"""Below this share an engine is not proven anyway, and would be called worse than it is."""
_AGAIN = 0.02
"""Share of requests on which it is tried again where it did not tell."""
_MOST_KEYS = 10_000


class EqualityAlone:
    """The comparisons seen by tenant and scope, in memory: after a restart it is tried again."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._seen: dict[Hashable, deque[bool]] = {}

    def worth_asking(self, key: Hashable) -> bool:
        """Tell if another comparison is worth the cost of its answers."""
        return len(self._of(key)) < _TRIED or self.counts(key) or self._rng.random() < _AGAIN

    def counts(self, key: Hashable) -> bool:
        """Tell if the next comparison is to become an outcome, whatever it says."""
        seen = self._of(key)
        return len(seen) >= _TRIED and sum(seen) >= _MOSTLY * len(seen)

    def saw(self, key: Hashable, *, equal: bool) -> None:
        """Another comparison was made."""
        self._of(key).append(equal)

    def _of(self, key: Hashable) -> deque[bool]:
        if len(self._seen) >= _MOST_KEYS:
            self._seen.clear()
        return self._seen.setdefault(key, deque(maxlen=_LATEST))
