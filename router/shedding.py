"""Load shedding: what a worker leaves out, in this order, while it has more to do than it can.

The load is one signal: how late the event loop comes to what is due, how much of their deadlines requests wait for decisions
and the recorder's queue is filled, and the share of a core that is in use. One more kind of work is left out at every look
that finds it too high, and one fewer after a while of calm, the later the sooner the load came back (hysteresis). Embedding,
retrieval and decisions are not in the list: they are what is made room for. What holds the loop up for a moment is no load:
two looks in a row must find it.
"""

from __future__ import annotations

from typing import Literal, Protocol

Work = Literal["shadow", "checks", "texts", "examples", "details"]
ORDER: tuple[Work, ...] = ("shadow", "checks", "texts", "examples", "details")
"""Comparisons for a proof, comparisons of what is proven, texts of requests with all that is kept beside them, new examples,
and what is kept of hits and failures for people to read."""
STILL_COMPARED = 0.1
"""The share of the comparisons that is still made: a proof goes on, and a bad engine is noticed. If no outcome came of
any, what is proven would count as unwatched, and its requests go to the reference."""
_EXTRA = 2
"""So many kinds ask engines beside the clients: they stop when a core is nearly used up, before anything is late."""
_LATE_S, _CALM_S = 0.05, 0.02
"""Lag of the event loop that is too much, and that is calm."""
_LONG, _SHORT = 0.5, 0.25
"""Shares of a deadline, or of a queue's room."""
_BUSY, _IDLE = 0.9, 0.75
"""Shares of a core."""
_GIVE_BACK_S, _LONGEST_S = 2.0, 32.0


class Loaded(Protocol):
    """The questions that work which may be shed asks."""

    def sheds(self, work: Work) -> bool:
        """Tell if one piece of it is left out; then it is counted."""
        ...

    def holds(self, work: Work) -> bool:
        """Tell if it is left out now."""
        ...


class Shedding:
    """The state of one worker. `look` is called from one thread; the rest from any."""

    def __init__(self) -> None:
        self.level = 0
        """The number of kinds of ORDER that are left out now, the first ones."""
        self.shed: dict[Work, int] = dict.fromkeys(ORDER, 0)
        """The number of pieces that were left out."""
        self._was_high = False
        self._calm_since_s: float | None = None
        self._calm_for_s = _GIVE_BACK_S
        self._given_back_at_s: float | None = None
        """When the last step was taken, where that gave something back."""

    def sheds(self, work: Work) -> bool:
        """See Loaded."""
        if not self.level or ORDER.index(work) >= self.level:
            return False
        self.shed[work] += 1
        return True

    def holds(self, work: Work) -> bool:
        """See Loaded."""
        return ORDER.index(work) < self.level

    def look(self, now_s: float, *, lag_s: float, waits: float, core_share: float) -> None:
        """Take the load at `now_s` (time.monotonic): the event loop's lag, the longest of the waits as a share of what it
        may be, and the share of a core in use."""
        late = lag_s > _LATE_S or waits > _LONG
        high = late or (core_share > _BUSY and self.level <= _EXTRA)
        calm = lag_s < _CALM_S and waits < _SHORT and (core_share < _IDLE or self.level > _EXTRA)
        if high and self._was_high and self.level < (len(ORDER) if late else _EXTRA):
            self._leave_out_more(now_s)
        elif not calm:
            self._calm_since_s = None
        elif self.level:
            self._give_back(now_s)
        self._was_high = high

    def _leave_out_more(self, now_s: float) -> None:
        if self._given_back_at_s is not None:
            too_soon = now_s < self._given_back_at_s + 2 * self._calm_for_s
            self._calm_for_s = min(_LONGEST_S, 2 * self._calm_for_s) if too_soon else _GIVE_BACK_S
        self._given_back_at_s = self._calm_since_s = None
        self.level += 1

    def _give_back(self, now_s: float) -> None:
        if self._calm_since_s is None:
            self._calm_since_s = now_s
        if now_s >= self._calm_since_s + self._calm_for_s:
            self._calm_since_s = self._given_back_at_s = now_s
            self.level -= 1


NEVER = Shedding()
"""The load of whoever has no worker."""
