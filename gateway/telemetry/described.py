"""An ended request as spans and measurements: plain values, with the names of gateway.telemetry.names.

One server span for the request, one client span for each request to an upstream. No text of a request or an answer is among
them unless `content` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from engines.tracing import Trace, UpstreamCall
from gateway.labels import api_of
from gateway.telemetry import names
from gateway.telemetry.content import answered_messages, asked_messages
from router.finished import Finished, Journey, Outcome

Value = str | int | float | tuple[str, ...]
_MOST_CHARACTERS = 200
_SERVER_ERROR = 500
_CLIENT_ERROR = 400


class SpanKind(Enum):
    """Whose side a span tells of."""

    SERVER = "server"
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class Span:
    """One span. Times are nanoseconds since 1970."""

    kind: SpanKind
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    """Empty where the trace begins with it."""
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value]
    error: bool = False


@dataclass(frozen=True, slots=True)
class Measurement:
    """One value of a metric."""

    metric: str
    value: float
    attributes: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Described:
    """All that is sent of one request."""

    spans: tuple[Span, ...] = ()
    measurements: tuple[Measurement, ...] = ()


@dataclass(frozen=True, slots=True)
class Describer:
    """Puts ended requests into spans and measurements.

    `provider_of` gives the provider of an engine, by its name and host. `content`: messages and answers are sent, too.
    """

    provider_of: Callable[[str, str], str]
    content: bool = False

    def __call__(self, ended: Journey) -> Described:
        """What is to be sent; nothing for the gateway's own pages."""
        trace = ended.arrival.trace
        api = api_of(ended) or ("other" if trace is not None and trace.calls else "")
        if not api:
            return Described()
        made = _Made(ended, self.provider_of, api)
        if trace is None:
            # A step of a run: its requests to upstreams are spans of the request that began the run.
            return Described((), tuple(made.tokens(None)))
        trace.ended = True
        measured = [*made.durations(trace), *made.tokens(made.answering(trace))]
        if not trace.sampled:
            return Described((), tuple(measured))
        calls = [made.client_span(trace, call, content=self.content) for call in trace.calls]
        return Described((made.server_span(trace), *calls), tuple(measured))


@dataclass(slots=True)
class _Made:
    ended: Journey
    provider_of: Callable[[str, str], str]
    api: str
    finished: Finished | None = field(init=False)

    def __post_init__(self) -> None:
        self.finished = self.ended if isinstance(self.ended, Finished) else None

    # ---- spans

    def server_span(self, trace: Trace) -> Span:
        ended, arrival = self.ended, self.ended.arrival
        attributes: dict[str, Value] = {
            names.METHOD: arrival.method[:_MOST_CHARACTERS],
            names.SCHEME: "http",
            names.DECISION: arrival.id,
            names.OUTCOME: ended.outcome.value,
            names.API: self.api,
            names.OVERHEAD_S: round(max(0.0, ended.overhead_s), 6),
        }
        if self.api != "other":
            attributes[names.PATH] = arrival.path[:_MOST_CHARACTERS]
        told: dict[str, Value] = {
            names.STATUS: ended.status,
            names.ENGINE: ended.engine,
            names.POLICY: ended.policy,
            names.REASON: ended.reason,
            names.TENANT: arrival.tenant_name or arrival.tenant,
            names.KEY: arrival.key_name or arrival.key_id or "",
            names.OPERATION: names.OPERATIONS.get(self.api, ""),
            names.REQUEST_MODEL: ended.model[:_MOST_CHARACTERS],
            names.COST_USD: ended.cost_usd or 0.0,
            names.EXAMPLES: len(self.finished.example_ids) if self.finished is not None else 0,
        }
        attributes |= {name: value for name, value in told.items() if value}
        failed = ended.status >= _SERVER_ERROR or ended.outcome in (Outcome.FAILED, Outcome.ABORTED)
        if failed:
            attributes[names.ERROR_TYPE] = self.error_type()
        return Span(
            SpanKind.SERVER,
            f"{arrival.method[:16]} {self.api}",
            trace.trace_id,
            trace.span_id,
            trace.parent_id,
            self.at_ns(arrival.began),
            self.at_ns(ended.ended_at),
            attributes,
            error=failed,
        )

    def client_span(self, trace: Trace, call: UpstreamCall, *, content: bool) -> Span:
        operation, error = self.operation(call), self.call_error(trace, call)
        attributes = self.of_call(call)
        if call.replica:
            attributes[names.REPLICA] = call.replica
        attributes[names.ENGINE] = call.engine
        if call.status:
            attributes[names.STATUS] = call.status
        if error:
            attributes[names.ERROR_TYPE] = error
        if call is self.answering(trace):
            attributes |= self.of_answer()
            if content:
                attributes |= self.content()
        model = attributes.get(names.REQUEST_MODEL, "")
        return Span(
            SpanKind.CLIENT,
            f"{operation} {model}".rstrip() if operation else self.ended.arrival.method[:16],
            trace.trace_id,
            call.span_id,
            trace.span_id,
            self.at_ns(call.began),
            self.at_ns(call.ended or self.ended.ended_at),
            attributes,
            error=bool(error),
        )

    # ---- measurements

    def durations(self, trace: Trace) -> list[Measurement]:
        found = []
        for call in trace.calls:
            if not self.operation(call):
                continue
            attributes = self.of_call(call)
            if call is self.answering(trace):
                attributes |= self.response_model()
            if error := self.call_error(trace, call):
                attributes[names.ERROR_TYPE] = error
            took_s = (call.ended or self.ended.ended_at) - call.began
            found.append(Measurement(names.DURATION, max(0.0, took_s), attributes))
            if call.first_chunk_at is not None:
                first_s = max(0.0, call.first_chunk_at - call.began)
                found.append(Measurement(names.TIME_TO_FIRST_CHUNK, first_s, attributes))
        return found

    def tokens(self, call: UpstreamCall | None) -> list[Measurement]:
        usage, finished = self.ended.usage, self.finished
        if usage is None or (call is None and finished is None):
            return []
        if call is not None:
            attributes = self.of_call(call) | self.response_model()
        else:
            attributes = {
                names.OPERATION: "chat",
                names.PROVIDER: self.provider_of(self.ended.engine, ""),
                names.REQUEST_MODEL: self.ended.model[:_MOST_CHARACTERS],
            }
        counted = (("input", usage.prompt_tokens), ("output", usage.completion_tokens))
        return [
            Measurement(names.TOKEN_USAGE, count, attributes | {names.TOKEN_TYPE: kind})
            for kind, count in counted
            if count
        ]

    # ---- attributes

    def operation(self, call: UpstreamCall) -> str:
        return names.OPERATIONS.get(self.api) or ("chat" if call.model else "")

    def answering(self, trace: Trace) -> UpstreamCall | None:
        """The call whose answer was sent: the last one that succeeded."""
        found = (c for c in reversed(trace.calls) if not c.error and 0 < c.status < _CLIENT_ERROR)
        return next(found, None)

    def of_call(self, call: UpstreamCall) -> dict[str, Value]:
        attributes: dict[str, Value] = {names.SERVER_ADDRESS: call.host, names.SERVER_PORT: call.port}
        if operation := self.operation(call):
            attributes[names.OPERATION] = operation
            attributes[names.PROVIDER] = self.provider_of(call.engine, call.host)
            if model := (call.model or self.ended.model):
                attributes[names.REQUEST_MODEL] = model[:_MOST_CHARACTERS]
        return attributes

    def of_answer(self) -> dict[str, Value]:
        attributes, usage = self.response_model(), self.ended.usage
        if usage is not None:
            attributes[names.INPUT_TOKENS] = usage.prompt_tokens
            attributes[names.OUTPUT_TOKENS] = usage.completion_tokens
            if usage.cached_tokens:
                attributes[names.CACHE_READ_TOKENS] = usage.cached_tokens
        assembled = self.finished.assembled if self.finished is not None else None
        if assembled is not None:
            reasons = tuple(str(choice.get("finish_reason") or "")[:40] for choice in assembled.choices())
            if any(reasons):
                attributes[names.FINISH_REASONS] = reasons
        return attributes

    def response_model(self) -> dict[str, Value]:
        assembled = self.finished.assembled if self.finished is not None else None
        model = assembled.completion.get("model") if assembled is not None else None
        return {names.RESPONSE_MODEL: model[:_MOST_CHARACTERS]} if isinstance(model, str) and model else {}

    def content(self) -> dict[str, Value]:
        finished = self.finished
        if finished is None or finished.asked.controls.no_store:
            return {}
        attributes: dict[str, Value] = {names.INPUT_MESSAGES: asked_messages(finished.asked.chat.messages)}
        if finished.assembled is not None:
            attributes[names.OUTPUT_MESSAGES] = answered_messages(finished.assembled.choices())
        return attributes

    def call_error(self, trace: Trace, call: UpstreamCall) -> str:
        if call.error:
            return call.error
        if call.status >= _CLIENT_ERROR:
            return str(call.status)
        if call is trace.calls[-1] and self.ended.outcome in (Outcome.FAILED, Outcome.ABORTED):
            return self.error_type()
        return ""

    def error_type(self) -> str:
        ended = self.ended
        if ended.outcome is Outcome.ABORTED:
            return "client_gone"
        kind = ended.trail[-1].kind if ended.trail else None
        return str(kind) if kind is not None else str(ended.status or _SERVER_ERROR)

    def at_ns(self, moment: float) -> int:
        """A moment of time.perf_counter as nanoseconds since 1970."""
        arrival = self.ended.arrival
        return int((arrival.started_at_s + (moment - arrival.began)) * 1e9)
