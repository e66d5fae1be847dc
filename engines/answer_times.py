"""How long engines lately took: to answer, for the choice among an engine's replicas; and to begin, for its time limits.

Answers of replicas are kept as exponentially weighted means. A failed try counts as one that took twice as long as answers
do, so that who fails fast does not look fast. A figure that nobody added to for a while fades to the mean of all, so that
who was slow once is tried again.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable

_WEIGHT = 0.1
"""Of the newest answer: about the last twenty count."""
_FADES_S = 30.0
_MOST_S = 600.0
_UNKNOWN_S = 1.0
"""Before anybody has answered: the same for all."""
_BEGINNINGS = 100
_QUANTILE = 0.99
_MODELS = 64


class FirstDataTimes:
    """How long the latest streams of one engine took until their first data, by model: the latest 100 of 64 models."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, deque[float]] = OrderedDict()

    def took(self, model: str, seconds: float) -> None:
        """A stream came to its first data after so long, or was given up by then."""
        times_s = self._of.get(model)
        if times_s is None:
            times_s = self._of[model] = deque(maxlen=_BEGINNINGS)
            if len(self._of) > _MODELS:
                self._of.popitem(last=False)
        times_s.append(seconds)

    def needed_s(self, model: str) -> float:
        """What 99 of 100 streams needed; 0 before there was any."""
        times_s = sorted(self._of.get(model, ()))
        return times_s[math.ceil(_QUANTILE * len(times_s)) - 1] if times_s else 0.0


class AnswerTimes:
    """Of all replicas of one engine."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._all: list[AnswerTime] = []

    def another(self) -> AnswerTime:
        """The figure of a further replica."""
        self._all.append(AnswerTime(self))
        return self._all[-1]

    @property
    def mean_s(self) -> float:
        """Of those that have a figure, in seconds."""
        known = [one.last_s for one in self._all if one.last_s is not None]
        return sum(known) / len(known) if known else _UNKNOWN_S

    def now(self) -> float:
        """The time, in seconds."""
        return self._clock()


class AnswerTime:
    """Of one replica."""

    __slots__ = ("_of", "_told_at", "last_s")

    def __init__(self, of: AnswerTimes) -> None:
        self._of = of
        self._told_at = of.now()
        self.last_s: float | None = None
        """As it was when somebody last added to it; None before."""

    def took(self, seconds: float) -> None:
        """An answer was complete so long after it was asked for."""
        last_s = self.last_s
        mean_s = seconds if last_s is None else last_s + _WEIGHT * (seconds - last_s)
        self.last_s, self._told_at = min(_MOST_S, mean_s), self._of.now()

    def failed(self, seconds: float) -> None:
        """A try failed after so long."""
        usual_s = self._of.mean_s if self.last_s is None else max(self.last_s, self._of.mean_s)
        if self.last_s is None:
            self.last_s = usual_s
        self.took(max(seconds, 2 * usual_s))

    def seconds(self, mean_s: float, *, busy: bool) -> float:
        """What is to be expected of it now. `mean_s`: of all replicas; `busy`: something is under way there."""
        if self.last_s is None:
            return mean_s
        if busy:
            return self.last_s
        unused_s = self._of.now() - self._told_at
        return self.last_s + (mean_s - self.last_s) * min(1.0, unused_s / _FADES_S)
