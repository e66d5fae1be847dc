"""What can go wrong between us and an engine, and whose fault it is.

    EngineError
    ├── ConnectFailed    nobody answered, or the connection broke before the first byte       502
    ├── TimedOut         a phase took longer than its limit                                   504
    ├── StreamBroken     the answer started and then ended without its terminal event         502
    └── Unavailable      we did not ask: breaker open, queue full, engine drained             503

An HTTP error status from an upstream is *not* one of these: it is an answer, and travels as it came.
"""

from __future__ import annotations


class EngineError(Exception):
    """Base of all engine failures. Its text is safe to show to a client: it never holds a key or a header."""

    status = 502
    code = "engine_error"

    def __init__(self, message: str, *, engine: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.engine = engine
        self.retry_after_s = retry_after_s


class ConnectFailed(EngineError):
    """No connection, or it broke before the first byte of the answer: safe to try again elsewhere."""

    code = "upstream_connection_failed"


class TimedOut(EngineError):
    """A phase (connect, first chunk, gap, total) took longer than its limit."""

    status = 504
    code = "upstream_timeout"

    def __init__(self, message: str, *, phase: str, engine: str = "") -> None:
        super().__init__(message, engine=engine)
        self.phase = phase


class StreamBroken(EngineError):
    """The answer began and ended early. What was sent cannot be taken back, so no other engine is simply asked."""

    code = "upstream_stream_broken"


class Unavailable(EngineError):
    """We refused to ask: the breaker is open, the queue is full or the engine is drained."""

    status = 503
    code = "engine_unavailable"


class RequestError(Exception):
    """The client's request cannot be served as it stands."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        code: str = "invalid_request",
        param: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.param = param
        self.retry_after_s = retry_after_s
