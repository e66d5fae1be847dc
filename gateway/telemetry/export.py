"""Sends spans and metrics to a collector (OTLP over HTTP), from threads of its own.

Nobody waits for the collector: what does not fit into the queue is dropped and counted, and so is what it does not take.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from uuid import uuid4

import requests
import structlog
from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from prometheus_client import CollectorRegistry, Counter

from gateway.telemetry import names
from gateway.telemetry.described import Described, Describer, Span, SpanKind
from router.finished import Finished, Journey

log = structlog.get_logger(__name__)

_QUEUED = 4096
"""Requests that wait to be sent."""
_AT_ONCE = 512
"""Spans of one export."""
_GATHER_S = 0.5
_KINDS = {SpanKind.SERVER: otel.SpanKind.SERVER, SpanKind.CLIENT: otel.SpanKind.CLIENT}


@dataclass(frozen=True, slots=True)
class Collector:
    """Where telemetry goes, and as whose."""

    endpoint: str
    """Base URL: /v1/traces and /v1/metrics are below it."""
    headers: Mapping[str, str]
    service_name: str
    timeout_s: float
    metrics_every_s: float


class TelemetryMetrics:
    """Series of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.sent = Counter(
            "understudy_telemetry",
            "What became of spans, and of exports of metrics, for the OpenTelemetry collector.",
            ["signal", "result"],
            registry=registry,
        )


class Telemetry:
    """Takes ended requests from any thread; see the module. `start` it before, `close` it at the end."""

    def __init__(self, collector: Collector, describer: Describer, metrics: TelemetryMetrics) -> None:
        self._collector = collector
        self._describe = describer
        self._queue: queue.Queue[Journey | Described | None] = queue.Queue(_QUEUED)
        self._thread: threading.Thread | None = None
        self._sent = metrics.sent

    def start(self) -> None:
        """Begin to send."""
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def take(self, ended: Journey) -> None:
        """Send what came of a request, later. Never blocks, never raises."""
        try:
            # A finished one holds its answer, which must not wait here; it comes from the recorder's thread.
            self._queue.put_nowait(self._describe(ended) if isinstance(ended, Finished) else ended)
        except queue.Full:
            self._sent.labels("spans", "dropped").inc()
        except Exception as error:
            self._sent.labels("spans", "failed").inc()
            log.error("telemetry_failed", error=error)

    def close(self) -> None:
        """Send what is queued, for as long as one export may take, and end."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            self._queue.put(None, timeout=self._collector.timeout_s)
        except queue.Full:
            return
        thread.join(self._collector.timeout_s + 2 * _GATHER_S)

    def _run(self) -> None:
        sending = _Sending(self._collector, self._sent)
        open_ = True
        while open_:
            batch = [self._queue.get()]
            if batch[0] is not None:
                time.sleep(_GATHER_S)
            while len(batch) < _AT_ONCE and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            open_ = None not in batch
            described = [self._described(one) for one in batch if one is not None]
            sending.measure(described)
            sending.send([span for one in described for span in one.spans])
        sending.close()

    def _described(self, one: Journey | Described) -> Described:
        if isinstance(one, Described):
            return one
        try:
            return self._describe(one)
        except Exception as error:
            self._sent.labels("spans", "failed").inc()
            log.error("telemetry_failed", error=error)
            return Described()


class _Sending:
    """The SDK's side, for the sending thread only."""

    def __init__(self, collector: Collector, counted: Counter) -> None:
        # Its texts may quote a URL or a header; what fails is counted and told in our own words.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._counted = counted
        resource = Resource.create(
            {
                "service.name": collector.service_name,
                "service.version": version("understudy-gateway"),
                "service.instance.id": uuid4().hex,
            }
        )
        self._ids, self._ended = _GivenIds(), _Ended()
        provider = TracerProvider(
            sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False, id_generator=self._ids
        )
        provider.add_span_processor(self._ended)
        self._tracer = provider.get_tracer(names.SCOPE, schema_url=names.SCHEMA_URL)
        self._spans = OTLPSpanExporter(
            f"{collector.endpoint}/v1/traces",
            headers=dict(collector.headers),
            timeout=collector.timeout_s,
            session=_session(),
        )
        exporter = _CountedMetrics(collector, counted)
        reader = PeriodicExportingMetricReader(
            exporter, collector.metrics_every_s * 1000, collector.timeout_s * 1000
        )
        self._meters = MeterProvider([reader], resource, shutdown_on_exit=False)
        meter = self._meters.get_meter(names.SCOPE, schema_url=names.SCHEMA_URL)
        self._histograms = {
            name: meter.create_histogram(
                name, unit, description, explicit_bucket_boundaries_advisory=list(boundaries)
            )
            for name, unit, description, boundaries in (
                (names.DURATION, "s", "GenAI operation duration.", names.DURATION_S),
                (names.TIME_TO_FIRST_CHUNK, "s", "Time to the first chunk of a stream.", names.FIRST_CHUNK_S),
                (names.TOKEN_USAGE, "{token}", "Number of input and output tokens used.", names.TOKENS),
            )
        }
        self._failing = False

    def measure(self, described: Sequence[Described]) -> None:
        for one in described:
            for each in one.measurements:
                self._histograms[each.metric].record(each.value, each.attributes)

    def send(self, spans: Sequence[Span]) -> None:
        for begin in range(0, len(spans), _AT_ONCE):
            some = spans[begin : begin + _AT_ONCE]
            try:
                sent = self._spans.export(self._made(some)) is SpanExportResult.SUCCESS
            except Exception as error:
                sent = False
                log.error("telemetry_failed", error=error)
            self._counted.labels("spans", "sent" if sent else "failed").inc(len(some))
            if sent == self._failing:
                self._failing = not sent
                if sent:
                    log.info("telemetry_sent_again")
                else:
                    log.warning("telemetry_not_sent")

    def close(self) -> None:
        self._meters.shutdown()
        self._spans.shutdown()  # type: ignore[no-untyped-call]

    def _made(self, spans: Sequence[Span]) -> list[ReadableSpan]:
        for span in spans:
            self._ids.trace_id, self._ids.span_id = int(span.trace_id, 16), int(span.span_id, 16)
            made = self._tracer.start_span(
                span.name,
                context=_below(span),
                kind=_KINDS[span.kind],
                attributes=span.attributes,
                start_time=span.start_ns,
            )
            if span.error:
                made.set_status(otel.StatusCode.ERROR)
            made.end(span.end_ns)
        return self._ended.taken()


class _GivenIds(IdGenerator):
    """Ids that went to upstreams before their spans were made."""

    trace_id = span_id = 0

    def generate_span_id(self) -> int:
        return self.span_id

    def generate_trace_id(self) -> int:
        return self.trace_id


class _Ended(SpanProcessor):
    """Holds spans that ended."""

    def __init__(self) -> None:
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self._spans.append(span)

    def taken(self) -> list[ReadableSpan]:
        taken, self._spans = self._spans, []
        return taken


class _CountedMetrics(OTLPMetricExporter):
    """Counts what became of its exports."""

    def __init__(self, collector: Collector, counted: Counter) -> None:
        super().__init__(
            f"{collector.endpoint}/v1/metrics",
            headers=dict(collector.headers),
            timeout=collector.timeout_s,
            session=_session(),
        )
        self._counted = counted

    def export(
        self, metrics_data: MetricsData, timeout_millis: float | None = None, **kwargs: object
    ) -> MetricExportResult:
        result = super().export(metrics_data, timeout_millis)
        sent = result is MetricExportResult.SUCCESS
        self._counted.labels("metrics", "sent" if sent else "failed").inc()
        return result


def _session() -> requests.Session:
    """Goes to the collector and nowhere else: no proxy of the environment, no redirect."""
    session = requests.Session()
    session.trust_env = False
    session.max_redirects = 0
    return session


def _below(span: Span) -> Context:
    """What makes a span the child of its parent; an empty context where it has none."""
    if not span.parent_id:
        return Context()
    parent = otel.SpanContext(
        int(span.trace_id, 16),
        int(span.parent_id, 16),
        is_remote=span.kind is SpanKind.SERVER,
        trace_flags=otel.TraceFlags(otel.TraceFlags.SAMPLED),
    )
    return otel.set_span_in_context(otel.NonRecordingSpan(parent), Context())
