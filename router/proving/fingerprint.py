"""Notices that an engine is not the one that was compared: by what its answers tell of it, and by how long they are."""

from __future__ import annotations

from router.guarantee.evidence import Detector

_SETTLED = 20
"""Outcomes without a new fingerprint after which one more is a change, doubled with each change: of several that are in use
at once all are seen before, and an engine that names a new one each time is not closed for ever."""
_MOST_KEPT = 1000
_LEARNT_FROM = 50
"""Lengths from which on their mean is known."""
_MOVED = 0.15
"""By how much the mean may differ from that and be the same: from equally long to less than twice, or more than half."""


class Fingerprints:
    """The fingerprints that were seen of one engine."""

    def __init__(self) -> None:
        self._seen: dict[str, None] = {}
        self._since = 0
        """Outcomes since the latest new one."""
        self._changes = 0

    def changed(self, fingerprint: str) -> bool:
        """Count an outcome and tell if its fingerprint shows another engine; an empty one tells nothing."""
        self._since += 1
        if not fingerprint or fingerprint in self._seen:
            return False
        changed = bool(self._seen) and self._since > _SETTLED * 2**self._changes
        self._seen[fingerprint] = None
        if len(self._seen) > _MOST_KEPT:
            del self._seen[next(iter(self._seen))]
        self._since = 0
        self._changes += changed
        return changed


class Lengths:
    """The lengths of one way's answers beside the reference's, each its share of both, 0 to 1: the request matters less."""

    def __init__(self) -> None:
        self._count, self._mean = 0, 0.0
        self._shorter, self._longer = Detector(), Detector()

    def changed(self, length: float) -> bool:
        """Count an answer and tell if they became longer or shorter than the first ones were."""
        if self._count < _LEARNT_FROM:
            self._count += 1
            self._mean += (length - self._mean) / self._count
            return False
        for detector, value, mean in (
            (self._shorter, length, self._mean),
            (self._longer, 1.0 - length, 1.0 - self._mean),
        ):
            if mean > _MOVED:
                detector.add(value, mean - _MOVED)
        return self._shorter.found or self._longer.found
