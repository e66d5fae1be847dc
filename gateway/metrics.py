"""Every metric series, declared once and fed from finished journeys. Names follow Prometheus' conventions."""

from __future__ import annotations

import os
from functools import lru_cache, partial

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from gateway.journey import Journey

disable_created_metrics()  # type: ignore[no-untyped-call]
_LATENCY_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_OVERHEAD_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5)


class Metrics:
    """The series of one gateway process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.requests = counter(
            "understudy_requests", "Requests by outcome.", ["outcome", "engine", "status"]
        )
        self.in_flight = Gauge(
            "understudy_in_flight",
            "Requests now under way.",
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self.latency = histogram(
            "understudy_request_seconds", "Door to door.", ["outcome"], buckets=_LATENCY_S
        )
        self.first_chunk = histogram(
            "understudy_first_chunk_seconds",
            "Until the first byte of a stream left.",
            ["engine"],
            buckets=_LATENCY_S,
        )
        self.overhead = histogram(
            "understudy_overhead_seconds",
            "Door to door, less the time spent on engines.",
            buckets=_OVERHEAD_S,
        )
        self.stage = histogram(
            "understudy_stage_seconds", "Stages of the pipeline.", ["stage"], buckets=_OVERHEAD_S
        )
        self.bypassed = counter(
            "understudy_bypassed", "Stages that were late or broken and gone without.", ["stage"]
        )
        self.offloaded = counter(
            "understudy_offloaded", "Requests an engine answered with examples.", ["engine"]
        )
        self.examples_used = counter("understudy_examples_used", "Examples sent along.")
        self.tokens = counter("understudy_tokens", "Tokens.", ["engine", "kind"])
        self.cached_tokens = counter(
            "understudy_cached_tokens", "Prompt tokens an engine had in its prefix cache.", ["engine"]
        )
        self.continued = counter(
            "understudy_continued", "Answers that broke off and were carried on.", ["engine", "by"]
        )
        self.cost = counter("understudy_cost_usd", "Cost of answers in US dollars.", ["engine"])
        self.remembered = counter(
            "understudy_remembered", "What became of finished answers.", ["kind", "result"]
        )
        self._requests_of = lru_cache(maxsize=512)(self.requests.labels)
        self._latency_of = lru_cache(maxsize=64)(self.latency.labels)
        self._stage_of = lru_cache(maxsize=64)(self.stage.labels)

    def began(self) -> None:
        """A request came in."""
        self.in_flight.inc()

    def ended(self, journey: Journey) -> None:
        """A request left, one way or another."""
        self.in_flight.dec()
        seconds = journey.ended - journey.began
        outcome = journey.outcome.value
        self._requests_of(outcome, journey.engine, str(journey.status)).inc()
        self._latency_of(outcome).observe(seconds)
        if journey.first_chunk is not None:
            self.first_chunk.labels(journey.engine).observe(journey.first_chunk - journey.began)
        self.overhead.observe(max(0.0, journey.overhead_s))
        for name, spent in journey.stages.items():
            self._stage_of(name).observe(spent)
        for name in journey.bypassed:
            self.bypassed.labels(name).inc()
        if journey.example_ids:
            self.offloaded.labels(journey.engine).inc()
            self.examples_used.inc(len(journey.example_ids))
        if journey.prompt_tokens or journey.completion_tokens:
            self.tokens.labels(journey.engine, "prompt").inc(journey.prompt_tokens)
            self.tokens.labels(journey.engine, "completion").inc(journey.completion_tokens)
            self.cost.labels(journey.engine).inc(journey.cost_usd)
        if journey.cached_tokens:
            self.cached_tokens.labels(journey.engine).inc(journey.cached_tokens)
        for by in journey.continued:
            self.continued.labels(journey.engine, by).inc()

    def exposition(self) -> bytes:
        """All series in Prometheus' text format."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self.registry)
        # Any worker may be asked, and each must answer for all.
        everyone = CollectorRegistry()
        MultiProcessCollector(everyone)  # type: ignore[no-untyped-call]
        return generate_latest(everyone)
