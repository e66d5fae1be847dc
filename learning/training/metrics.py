"""Prometheus metrics of learning. They exist only where a served model learns."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from router.plan import Choice


class LearningMetrics:
    """The metrics of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.broken = Counter(
            "understudy_artifacts_broken",
            "Versions of what was learnt that could not be used and were gone without, by kind.",
            ["kind"],
            registry=registry,
        )
        self.choices = Counter(
            "understudy_choices",
            "Requests by how their engine was chosen: as looked best, explored, or sent up by the quality floor.",
            ["model", "how"],
            registry=registry,
        )
        self.load_shifted = Counter(
            "understudy_load_shifted",
            "Requests that would have gone to another engine had all been idle.",
            ["model"],
            registry=registry,
        )
        self.offload_cap = Gauge(
            "understudy_offload_cap",
            "Share of requests that the quality floor lets go to other engines than the reference, least of all tenants.",
            ["model"],
            registry=registry,
            multiprocess_mode="livemin",
        )

    def decided(self, model: str, choice: Choice | None) -> None:
        """Counts how a request for `model` was decided; None if no actions were weighed."""
        if choice is None:
            return
        how = "floored" if choice.floored else "explored" if choice.explored else "best"
        self.choices.labels(model, how).inc()
        if choice.chosen != choice.chosen_without_load:
            self.load_shifted.labels(model).inc()
