"""A request's place in a distributed trace (W3C Trace Context), and the requests to upstreams that it led to.

Nothing is here unless telemetry is on. Then the task that answers a request has a `Trace`, and so have the tasks it starts;
each request to an upstream is noted in it and carries a `traceparent` of its own. Holds no text of a request or an answer.
"""

from __future__ import annotations

import secrets
import time
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from engines.engine import EngineRequest

_SPAN_BYTES = 8
_MOST_CALLS = 200
"""Noted of one request; a run may ask more often."""


@dataclass(slots=True, eq=False)
class UpstreamCall:
    """One request to an upstream: a client span. Times are seconds of time.perf_counter."""

    span_id: str
    engine: str
    replica: str
    host: str
    port: int
    model: str
    """As the upstream is asked for it; empty where the body was not read."""
    began: float
    ended: float = 0.0
    """0 while it is under way."""
    status: int = 0
    """Of the answer; 0 before its head is here."""
    first_chunk_at: float | None = None
    """When the first data of a stream came; None where nothing was streamed."""
    error: str = ""
    """What kind of failure it was; empty for an answer."""

    def failed(self, error: str) -> None:
        """It brought no whole answer."""
        self.error = self.error or error

    def end(self) -> None:
        """Its answer was read, or left."""
        self.ended = self.ended or time.perf_counter()


@dataclass(slots=True, eq=False)
class Trace:
    """A request's place in a trace."""

    trace_id: str
    """32 hexadecimal digits."""
    parent_id: str
    """16 hexadecimal digits: the client's span; empty where the trace begins here."""
    flags: str
    """Two hexadecimal digits, as they go on to upstreams."""
    span_id: str = field(default_factory=lambda: secrets.token_hex(_SPAN_BYTES))
    """16 hexadecimal digits: our own span."""
    calls: list[UpstreamCall] = field(default_factory=list)
    """The requests to upstreams, in the order in which they began."""
    ended: bool = False
    """The request is over: what its tasks go on to ask in the background is no part of it."""

    @property
    def sampled(self) -> bool:
        """Whether spans are wanted."""
        return bool(int(self.flags, 16) & 1)

    def traceparent(self, span_id: str) -> str:
        """The header that makes `span_id` the parent of what an upstream does."""
        return f"00-{self.trace_id}-{span_id}-{self.flags}"


_current: ContextVar[Trace | None] = ContextVar("trace", default=None)


def enter(trace: Trace | None) -> None:
    """From now on what this task asks of upstreams, and what tasks ask that it starts, is part of `trace`."""
    _current.set(trace)


def call_to(
    request: EngineRequest, *, engine: str, replica: str, host: str, port: int
) -> tuple[EngineRequest, UpstreamCall | None]:
    """`request` as it goes out, and the note of it; the same, and None, where it belongs to no trace."""
    trace = _current.get()
    if trace is None or trace.ended or request.background:
        return request, None
    model = request.chat.model if request.chat is not None else ""
    span_id = secrets.token_hex(_SPAN_BYTES)
    call = UpstreamCall(span_id, engine, replica, host, port, model, time.perf_counter())
    if len(trace.calls) < _MOST_CALLS:
        trace.calls.append(call)
    headers = request.headers.copy()
    if not trace.parent_id:
        # Of a trace that was not understood.
        headers.popall("tracestate", None)
    headers["traceparent"] = trace.traceparent(span_id)
    return replace(request, headers=headers), call
