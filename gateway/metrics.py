"""Every metric series, declared once and fed from ended requests. Names follow Prometheus' conventions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache, partial

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from engines.placement import Rank
from gateway.labels import Asker, AskerLabels
from router.finished import Finished, Journey, Outcome

disable_created_metrics()  # type: ignore[no-untyped-call]
_ASKER = Asker._fields
_LATENCY_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_OVERHEAD_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5)


class Metrics:
    """The series of one gateway process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.requests = counter(
            "understudy_requests", "Requests by outcome.", ["outcome", "engine", "status", *_ASKER]
        )
        self.in_flight = Gauge(
            "understudy_in_flight",
            "Requests now under way.",
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self.latency = histogram(
            "understudy_request_seconds",
            "From the arrival of a request to its end.",
            ["outcome", "engine", "model", "api"],
            buckets=_LATENCY_S,
        )
        self.ttft = histogram(
            "understudy_ttft_seconds",
            "Until the first byte of a stream left.",
            ["engine", "model", "api"],
            buckets=_LATENCY_S,
        )
        self.overhead = histogram(
            "understudy_overhead_seconds",
            "From the arrival of a request to the head of its answer, less the wait for an engine.",
            buckets=_OVERHEAD_S,
        )
        self.stage = histogram(
            "understudy_stage_seconds", "Stages of the pipeline.", ["stage"], buckets=_OVERHEAD_S
        )
        self.bypassed = counter(
            "understudy_bypassed", "Stages that were late or broken, and left out.", ["stage"]
        )
        self.offloaded = counter(
            "understudy_offloaded", "Requests an engine answered with examples.", ["engine"]
        )
        self.examples_used = counter("understudy_examples_used", "Examples sent along.")
        self.tokens = counter("understudy_tokens", "Tokens.", ["engine", "kind", *_ASKER])
        self.cached_tokens = counter(
            "understudy_cached_tokens", "Prompt tokens an engine had in its prefix cache.", ["engine"]
        )
        self.continued = counter(
            "understudy_continued", "Answers that broke off and were carried on.", ["engine", "by"]
        )
        self.failed_over = counter(
            "understudy_failed_over",
            "Answers by another engine than was decided on, and how that one failed.",
            ["from", "to", "kind"],
        )
        self.cost = counter(
            "understudy_cost_usd", "Cost of answers in US dollars, where it is known.", ["engine", *_ASKER]
        )
        self.unpriced = counter(
            "understudy_unpriced", "Answers of engines without a price.", ["engine", "model"]
        )
        self.remembered = counter(
            "understudy_remembered", "What became of finished answers.", ["kind", "result"]
        )
        self.engine_state = Gauge(
            "understudy_engine_state",
            "Workers that see an engine so.",
            ["engine", "replica", "state"],
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self.queued = Gauge(
            "understudy_queued",
            "Requests that wait for a place at an engine.",
            ["engine", "class"],
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self.prefix_tokens = counter(
            "understudy_prefix_tokens",
            "Tokens of the prompts of steps: all, and those believed to be cached at their replica.",
            ["engine", "replica", "kind"],
        )
        self.config = Gauge(
            "understudy_config_info",
            "Workers that serve by a configuration, by its hash.",
            ["hash"],
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self.all_ended = 0
        """Requests that left so far."""
        self.refused = counter(
            "understudy_reloads_refused", "Configurations that were read anew and not taken."
        )
        self._stood: dict[tuple[str, str], str] = {}
        self._askers = AskerLabels()
        self._requests_of = lru_cache(maxsize=4096)(self.requests.labels)
        self._latency_of = lru_cache(maxsize=512)(self.latency.labels)
        self._stage_of = lru_cache(maxsize=64)(self.stage.labels)
        self._tokens_of = lru_cache(maxsize=4096)(self.tokens.labels)
        self._cost_of = lru_cache(maxsize=4096)(self.cost.labels)

    def engine_stands(self, engine: str, replica: str, state: str) -> None:
        """Note the state of an engine as this worker sees it."""
        was = self._stood.get((engine, replica))
        if was is not None:
            self.engine_state.labels(engine, replica, was).set(0)
        self.engine_state.labels(engine, replica, state).set(1)
        self._stood[engine, replica] = state

    def waits(self, engine: str, rank: Rank, more: int) -> None:
        """So many more requests of a class wait for a place at an engine."""
        self.queued.labels(engine, rank.label).inc(more)

    def placed(self, engine: str, replica: str, prompt_tokens: int, cached_tokens: int) -> None:
        """A chat request goes to a replica that is believed to have so much of its prompt."""
        self.prefix_tokens.labels(engine, replica, "asked").inc(prompt_tokens)
        self.prefix_tokens.labels(engine, replica, "cached").inc(cached_tokens)

    def began(self) -> None:
        """A request came in."""
        self.in_flight.inc()

    def ended(self, ended: Journey) -> None:
        """A request left, one way or another."""
        self.in_flight.dec()
        self.all_ended += 1
        outcome, asker = ended.outcome.value, self._askers.of(ended)
        self._requests_of(outcome, ended.engine, str(ended.status), *asker).inc()
        self._latency_of(outcome, ended.engine, asker.model, asker.api).observe(ended.total_s)
        if ended.first_chunk_s is not None:
            self.ttft.labels(ended.engine, asker.model, asker.api).observe(ended.first_chunk_s)
        self._used(ended, asker)
        self.overhead.observe(max(0.0, ended.overhead_s))
        for name, spent in ended.stages_s.items():
            self._stage_of(name).observe(spent)
        for name in ended.bypassed:
            self.bypassed.labels(name).inc()
        if (instead := ended.stood_in_for) is not None and ended.outcome is Outcome.ANSWERED:
            carried_on_by = ended.carried_on_by if isinstance(ended, Finished) else ()
            to = carried_on_by[-1] if carried_on_by else ended.engine
            self.failed_over.labels(instead.engine, to, instead.kind or "").inc()
        if isinstance(ended, Finished):
            self._finished(ended)

    def _used(self, ended: Journey, asker: Asker) -> None:
        engine, usage = ended.engine, ended.usage
        if usage is None:
            return
        if usage.prompt_tokens or usage.completion_tokens:
            self._tokens_of(engine, "prompt", *asker).inc(usage.prompt_tokens)
            self._tokens_of(engine, "completion", *asker).inc(usage.completion_tokens)
        if usage.cached_tokens:
            self.cached_tokens.labels(engine).inc(usage.cached_tokens)
        if ended.cost_usd is None:
            self.unpriced.labels(engine, asker.model).inc()
        elif ended.cost_usd:
            self._cost_of(engine, *asker).inc(ended.cost_usd)

    def _finished(self, finished: Finished) -> None:
        engine = finished.engine
        if (ids := finished.example_ids) and finished.failed_over is None:
            self.offloaded.labels(engine).inc()
            self.examples_used.inc(len(ids))
        for by in finished.carried_on_by:
            self.continued.labels(engine, by).inc()

    def exposition(self, *, people: bool = False) -> bytes:
        """All series in Prometheus' text format; `people`: by tenant and key, too, which not everybody may read."""
        registry = self.registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            # Any worker may be asked, and each must answer for all.
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry if people else _WithoutPeople(registry))


class _WithoutPeople(Collector):
    """The same series added up over tenants and keys."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            if any("tenant" in sample.labels for sample in family.samples):
                added: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
                for sample in family.samples:
                    kept = tuple(item for item in sample.labels.items() if item[0] not in ("tenant", "key"))
                    at = sample.name, kept
                    added[at] = added.get(at, 0.0) + sample.value
                family.samples = [Sample(name, dict(kept), value) for (name, kept), value in added.items()]
            yield family
