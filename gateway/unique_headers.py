"""Learns which headers are new with every request that is otherwise the same: no answer hangs on those.

And counts the repeats that were missed for one header alone. Refuses to know which headers may be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog
from cachetools import LRUCache
from prometheus_client import CollectorRegistry, Counter

log = structlog.get_logger(__name__)

NEW_EACH_TIME = 20
"""A header that was new in each of so many requests is new in all of them."""
_REQUESTS = 256
"""How many different requests are remembered."""
_HEADERS = 32
"""A request with more headers that count is not looked at."""
_DROPPED = 256
_NAMES = 50
_OTHER = "other"


class HeaderMetrics:
    """Counters of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.missed = Counter(
            "understudy_exact_missed",
            "Repeats that were asked anew because this header alone was another.",
            ["header"],
            registry=registry,
        )
        self.dropped = Counter(
            "understudy_exact_dropped",
            "Headers that were found new with every request, and tell requests apart no more, by worker.",
            ["header"],
            registry=registry,
        )


class SeenHeaders:
    """The headers of the latest requests, as hashes. For the event loop's thread only."""

    def __init__(self, metrics: HeaderMetrics | None = None) -> None:
        self.dropped: set[str] = set()
        """Names of headers that were new every time."""
        self._metrics = metrics
        self._names: set[str] = set()
        self._of: LRUCache[bytes, list[dict[str, int]]] = LRUCache(_REQUESTS)

    def note(self, otherwise: bytes, said: Mapping[str, str], may_drop: Callable[[str], bool]) -> None:
        """A request came with these headers, and is `otherwise` without them."""
        if len(said) > _HEADERS:
            return
        now = {name: hash(value) for name, value in said.items()}
        before = self._of.get(otherwise)
        if before is None:
            self._of[otherwise] = [now]
            return
        if now in before:
            return
        alone = {next(iter(names)) for names in (_other(now, one) for one in before) if len(names) == 1}
        for name in alone:
            self._count(name)
        before.append(now)
        if len(before) < NEW_EACH_TIME:
            return
        for name in filter(may_drop, now):
            if len({one.get(name) for one in before}) == len(before) and len(self.dropped) < _DROPPED:
                self._drop(name)
        del before[0]

    def _count(self, name: str) -> None:
        if self._metrics is not None:
            self._metrics.missed.labels(self._label(name)).inc()

    def _drop(self, name: str) -> None:
        self.dropped.add(name)
        log.info("header_tells_nothing", header=name[:64])
        if self._metrics is not None:
            self._metrics.dropped.labels(self._label(name)).inc()

    def _label(self, name: str) -> str:
        if name in self._names or len(self._names) < _NAMES:
            self._names.add(name)
            return name[:64]
        return _OTHER


def _other(one: Mapping[str, int], another: Mapping[str, int]) -> set[str]:
    """The headers that are not the same in both."""
    return {name for name, _ in one.items() ^ another.items()}
