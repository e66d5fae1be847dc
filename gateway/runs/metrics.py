"""Series of runs. They exist only where there is a memory to keep runs in."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class Uncounted:
    """Counts nothing: what is told of runs, for whoever wants to count it."""

    def live(self, change: int) -> None:
        """So many more runs are carried out by this process."""

    def step(self, rank: str, state: str) -> None:
        """A step of this class ended so."""

    def adopted(self) -> None:
        """A run of a process that ended is carried on here."""

    def not_saved(self) -> None:
        """The store did not take what happened to runs: it is tried again, and they go on."""


UNCOUNTED = Uncounted()


class RunMetrics(Uncounted):
    """Counters of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._live = Gauge(
            "understudy_runs_live",
            "Runs under way.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._steps = Counter(
            "understudy_run_steps", "Steps of runs that ended.", ["class", "state"], registry=registry
        )
        self._adopted = Counter(
            "understudy_runs_adopted",
            "Runs that were carried on after their worker had ended.",
            registry=registry,
        )
        self._not_saved = Counter(
            "understudy_runs_not_saved", "Writes about runs that the store did not take.", registry=registry
        )

    def live(self, change: int) -> None:
        """See Uncounted."""
        self._live.inc(change)

    def step(self, rank: str, state: str) -> None:
        """See Uncounted."""
        self._steps.labels(rank, state).inc()

    def adopted(self) -> None:
        """See Uncounted."""
        self._adopted.inc()

    def not_saved(self) -> None:
        """See Uncounted."""
        self._not_saved.inc()
