"""With how many texts in a request the throughput of a component stops to rise: measured while it is used.

Doubled until throughput gains less than 5 % (Teola, section 7: "until no throughput gain is observed"). Only full requests
count, and of each size the median of three. Twice in a row, since a slow moment must not settle it for good.
"""

from __future__ import annotations

from statistics import median

MOST = 256
"""Hosted embedders take a few hundred texts a request."""
_SAMPLES = 3
_GAIN = 1.05
_WITHOUT_GAIN = 2
"""Sizes in a row."""


class EffectiveBatch:
    """Of one component. `fixed`: set by the operator, or 1 where nothing is gained; None: measured."""

    def __init__(self, fixed: int | None = None) -> None:
        self.size = fixed or 1
        """The best that is known."""
        self._trial = None if fixed else 1
        """What is tried now; None once it is known."""
        self._took: list[float] = []
        self._items_per_s = 0.0
        self._without_gain = 0

    @property
    def to_send(self) -> int:
        """How many texts the next request may hold."""
        return self._trial or self.size

    @property
    def known(self) -> bool:
        """Whether it is no longer measured."""
        return self._trial is None

    def refused(self) -> None:
        """What is tried now is more than it takes, though smaller requests are answered."""
        if not self.known:
            self._trial = None

    def took(self, items: int, seconds: float) -> None:
        """A request with so many texts was answered after so long."""
        if self._trial is None or items != self._trial:
            return
        self._took.append(max(seconds, 1e-9))
        if len(self._took) < _SAMPLES:
            return
        items_per_s = items / median(self._took)
        self._took.clear()
        if items_per_s >= self._items_per_s * _GAIN:
            self.size, self._items_per_s, self._without_gain = items, items_per_s, 0
        else:
            self._without_gain += 1
        over = self._without_gain == _WITHOUT_GAIN or items * 2 > MOST
        self._trial = None if over else items * 2
