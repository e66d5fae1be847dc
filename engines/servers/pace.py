"""How long servers lately took, as exponentially weighted means: old answers stop counting.

For the choice among servers a failed try counts as one that took twice as long as answers do, so that who fails fast does
not look fast; and a figure that nobody added to for a while fades to the mean of all, so that who was slow once is tried
again.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_WEIGHT = 0.1
"""Of the newest answer: about the last twenty count."""
_FORGETTING = 1.005
_FADES_S = 30.0
_MOST_S = 600.0
_UNKNOWN_S = 1.0
"""Before anybody has answered: the same for all."""


class Pace:
    """Seconds to the first chunk of streams, and to the end of any answer. None before the first."""

    __slots__ = ("answer_s", "first_chunk_s", "idle_first_chunk_s")

    def __init__(self) -> None:
        self.first_chunk_s: float | None = None
        self.idle_first_chunk_s: float | None = None
        """The fastest lately: what a stream's first chunk takes when nothing queues."""
        self.answer_s: float | None = None

    def began(self, seconds: float) -> None:
        """The first chunk of a stream came after so long, the wait for a free place included."""
        self.first_chunk_s = mean(self.first_chunk_s, seconds)
        # It rises a little with every answer, so that an engine that became slower is believed in the end.
        fastest = self.idle_first_chunk_s
        self.idle_first_chunk_s = seconds if fastest is None else min(seconds, fastest * _FORGETTING)

    def ended(self, seconds: float) -> None:
        """An answer was complete after so long."""
        self.answer_s = mean(self.answer_s, seconds)


def mean(before: float | None, newest: float) -> float:
    """The mean of what was measured and what is new."""
    return newest if before is None else before + _WEIGHT * (newest - before)


class AnswerTimes:
    """The times of all servers of one engine."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._all: list[AnswerTime] = []

    def another(self) -> AnswerTime:
        """The figure of a further server."""
        self._all.append(AnswerTime(self))
        return self._all[-1]

    @property
    def mean_s(self) -> float:
        """The mean of those that have a figure, in seconds."""
        known = [one.last_s for one in self._all if one.last_s is not None]
        return sum(known) / len(known) if known else _UNKNOWN_S

    def now(self) -> float:
        """The time, in seconds."""
        return self._clock()


class AnswerTime:
    """The time of one server."""

    __slots__ = ("_of", "_told_at", "last_s")

    def __init__(self, of: AnswerTimes) -> None:
        self._of = of
        self._told_at = of.now()
        self.last_s: float | None = None
        """As it was when somebody last added to it; None before."""

    def took(self, seconds: float) -> None:
        """An answer was complete so long after it was asked for."""
        self.last_s, self._told_at = min(_MOST_S, mean(self.last_s, seconds)), self._of.now()

    def failed(self, seconds: float) -> None:
        """A try failed after so long."""
        usual_s = self._of.mean_s if self.last_s is None else max(self.last_s, self._of.mean_s)
        if self.last_s is None:
            self.last_s = usual_s
        self.took(max(seconds, 2 * usual_s))

    def seconds(self, mean_s: float, *, busy: bool) -> float:
        """Tells the time to be expected of it now. `mean_s`: of all servers; `busy`: something is under way there."""
        if self.last_s is None:
            return mean_s
        if busy:
            return self.last_s
        unused_s = self._of.now() - self._told_at
        return self.last_s + (mean_s - self.last_s) * min(1.0, unused_s / _FADES_S)
