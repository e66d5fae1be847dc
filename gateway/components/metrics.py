"""Counters of components, by component and ability."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from engines.components.component import Ability
from engines.components.counting import Uncounted
from engines.errors import Kind
from engines.servers.server import Server
from engines.servers.standing import Since

_BY = ["component", "ability"]
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class ComponentMetrics:
    """Of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._queued = Gauge(
            "understudy_component_queued",
            "Texts, queries and calls that wait for a component.",
            _BY,
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._in_flight = Gauge(
            "understudy_component_in_flight",
            "Requests to a component under way.",
            _BY,
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._items = Counter(
            "understudy_component_items",
            "Texts, queries and calls that a component answered.",
            _BY,
            registry=registry,
        )
        self._failed = Counter(
            "understudy_component_failures",
            "Requests to a component that failed, by kind of failure.",
            [*_BY, "kind"],
            registry=registry,
        )
        self._seconds = Histogram(
            "understudy_component_seconds",
            "What a request to a component took.",
            _BY,
            registry=registry,
            buckets=_SECONDS,
        )
        self._waited = Histogram(
            "understudy_component_wait_seconds",
            "How long parts of steps waited until their request began.",
            _BY,
            registry=registry,
            buckets=_SECONDS,
        )

        self._state = Gauge(
            "understudy_component_state",
            "Workers that see a component in a state, of those that are asked in the background whether they live.",
            ["component", "state"],
            registry=registry,
            multiprocess_mode="livesum",
        )

    def stands(self, server: Server, since: Since, was: Since | None) -> None:
        """The state of a component as this worker sees it, and what it was before. See engines.servers.prober."""
        if was is not None:
            self._state.labels(server.info.name, was.state).set(0)
        self._state.labels(server.info.name, since.state).set(1)

    def of(self, component: str, ability: Ability) -> Uncounted:
        """What counts one ability of one component."""
        return _Counted(self, component, ability)


class _Counted(Uncounted):
    def __init__(self, metrics: ComponentMetrics, component: str, ability: Ability) -> None:
        by = component, ability
        self._queued = metrics._queued.labels(*by)
        self._in_flight = metrics._in_flight.labels(*by)
        self._items = metrics._items.labels(*by)
        self._seconds = metrics._seconds.labels(*by)
        self._waited = metrics._waited.labels(*by)
        self._failures, self._by = metrics._failed, by

    def queued(self, change: int) -> None:
        """See Uncounted."""
        self._queued.inc(change)

    def begun(self) -> None:
        """See Uncounted."""
        self._in_flight.inc()

    def ended(self) -> None:
        """See Uncounted."""
        self._in_flight.dec()

    def waited(self, seconds: float) -> None:
        """See Uncounted."""
        self._waited.observe(seconds)

    def answered(self, items: int, seconds: float) -> None:
        """See Uncounted."""
        self._items.inc(items)
        self._seconds.observe(seconds)

    def failed(self, kind: Kind) -> None:
        """See Uncounted."""
        self._failures.labels(*self._by, kind).inc()
