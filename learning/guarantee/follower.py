"""Tells the rows of a log, in its order, to those who conclude from them: so workers and restarts come to the same state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from store.changes import LOOK_EVERY_S, Follower

AT_ONCE = 500
"""Rows read in one go."""
_PAUSE_S = 0.005
"""Between batches, so that requests are answered while many rows of old are read."""

K = TypeVar("K", bound=Hashable)
H = TypeVar("H")


class LogFollower(Follower, Generic[K, H]):
    """Who is new is told all that is kept of the log, page by page.

    `K` names what part of the log a hearer is told of, `H` is the hearer.
    """

    def __init__(self, name: str, look_every_s: float = LOOK_EVERY_S) -> None:
        super().__init__(name, look_every_s)
        self._told = -1
        self._places: dict[K, tuple[H, int, bool]] = {}
        """The hearer of each part of the log, the last row that it was told, and whether all of old was told."""

    @abstractmethod
    def _last_id(self) -> int:
        """The id of the log's last row."""

    @abstractmethod
    def _hearers(self) -> Iterable[tuple[K, H]]:
        """Those to be told now."""

    @abstractmethod
    def _rows(self, key: K, after: int) -> Sequence[Any]:
        """The next AT_ONCE rows of a part of the log, each with an `id`."""

    @abstractmethod
    def _tell(self, key: K, hearer: H, row: Any, *, live: bool) -> None:
        """Tell one row. `live`: it came since the hearer had been told of all there was."""

    def caught_up(self, timeout_s: float = 5.0) -> bool:
        """Waits until all that is in the log now is told, and returns whether it is. For tests and tools."""
        wanted = self._last_id()
        return self._waited(lambda: self._told >= wanted, timeout_s)

    def look(self) -> bool:
        """Tells a page of what was written since the last time to each; see Follower."""
        last, more = self._last_id(), False
        for key, hearer in self._hearers():
            known, place, live = self._places.get(key, (None, 0, False))
            if known is not hearer:
                more |= self._read(key, hearer, 0, last, live=False)
            elif not live or last > self._told:
                more |= self._read(key, hearer, place, last, live=live)
        if more:
            self._stopping.wait(_PAUSE_S)
        else:
            self._told = last
        return more

    def read(self) -> None:
        """Tells all that was written until now. Blocks: for who has no thread for it."""
        while self.look():
            pass

    def _read(self, key: K, hearer: H, place: int, last: int, *, live: bool) -> bool:
        rows = self._rows(key, place)
        for row in rows:
            place = row.id
            # Noted before: a row that cannot be told is passed over at the next look.
            self._places[key] = hearer, place, live
            self._tell(key, hearer, row, live=live)
        more = len(rows) == AT_ONCE
        # Where it ends, nothing up to `last` is of this part: it need not be looked through again.
        self._places[key] = hearer, place if more else max(place, last), live or not more
        return more
