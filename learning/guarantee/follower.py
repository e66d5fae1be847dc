"""Tells the rows of a log, in its order, to those who conclude from them: so workers and restarts come to the same state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from learning.poller import LOOK_EVERY_S, Poller

AT_ONCE = 500
"""Rows read in one go."""
_PAUSE_S = 0.005
"""Between batches, so that requests are answered while many rows of old are read."""

K = TypeVar("K", bound=Hashable)
H = TypeVar("H")


class LogFollower(Poller, Generic[K, H]):
    """Polls on its own thread between `start` and `stop`. Who is new is told all that is kept of the log.

    `K` names what part of the log a hearer is told of, `H` is the hearer.
    """

    def __init__(self, name: str, look_every_s: float = LOOK_EVERY_S) -> None:
        super().__init__(name, look_every_s)
        self._told = -1
        self._places: dict[K, tuple[H, int]] = {}
        """The hearer of each part of the log, and the last row that it was told."""

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

    def look(self) -> None:
        """Tells what was written since the last time; see Poller."""
        last, before = self._last_id(), self._told
        for key, hearer in self._hearers():
            known, place = self._places.get(key, (None, 0))
            if known is not hearer:
                self._read(key, hearer, 0, last, live=False)
            elif last > before:
                self._read(key, hearer, place, last, live=True)
        if not self._stopping.is_set():
            self._told = last

    def _read(self, key: K, hearer: H, place: int, last: int, *, live: bool) -> None:
        while not self._stopping.is_set():
            rows = self._rows(key, place)
            for row in rows:
                place = row.id
                # Noted before: a row that cannot be told is passed over at the next look.
                self._places[key] = hearer, place
                self._tell(key, hearer, row, live=live)
            if len(rows) < AT_ONCE:
                # Nothing up to here is of this part: it need not be looked through again.
                self._places[key] = hearer, max(place, last)
                return
            self._stopping.wait(_PAUSE_S)
