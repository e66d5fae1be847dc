"""What can go wrong between us and an engine, and whose fault it is.

    EngineError
    ├── ConnectFailed    nobody answered, or the connection broke before the first byte       502
    ├── TimedOut         a phase took longer than its limit                                   504
    ├── StreamBroken     the answer started and then ended without its terminal event         502
    └── Unavailable      we did not ask: breaker open, queue full, engine drained             503
        ├── RateLimited  we did not ask: its rate limit is used up                            429
        ├── Declined     it has no answer to this request, which is no fault                  503
        └── Unsayable    we did not ask: its API has no words for the request                 400

An HTTP error status from an upstream is *not* one of these: it is an answer, and travels as it came. Both have a `Kind`.
"""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What kind of failure one request to one engine met: in counters, trails and logs."""

    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT_CONNECT = "timeout_connect"
    TIMEOUT_FIRST_DATA = "timeout_first_data"
    TIMEOUT_GAP = "timeout_gap"
    TIMEOUT_ANSWER = "timeout_answer"
    LIMITED = "limited"
    """Its rate limit is used up, or it said when to come back."""
    QUOTA = "quota"
    """The account's credit or quota is used up: no wait helps."""
    REFUSED = "refused"
    """It refuses the gateway's key, or does not have the model."""
    SERVER = "server"
    """An error status from 500 on, or an error event in a stream."""
    BROKEN = "broken"
    """The answer ended early."""
    INVALID = "invalid"
    """A 200 that holds no answer."""
    TOO_LONG = "too_long"
    FULL = "full"
    """Not asked: its queue is full."""
    OPEN = "open"
    """Not asked: its circuit breaker is open, or it is drained or down."""


class EngineError(Exception):
    """Base of all engine failures. Its text is safe to show to a client: it never holds a key or a header."""

    status = 502
    code = "engine_error"
    kind = Kind.SERVER
    replica = ""
    """Which of the engine's base URLs; empty where it has one."""
    paid_usd = 0.0
    """What engines were paid nevertheless: those that a cascade asked (engines.cascade)."""
    event = b""
    """How the stream's own API tells a client of it, where it broke a stream off."""

    def __init__(
        self, message: str, *, engine: str = "", kind: Kind | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.engine = engine
        self.kind = kind or self.kind
        self.retry_after_s = retry_after_s


class ConnectFailed(EngineError):
    """No connection, or it broke before the first byte of the answer: safe to try again elsewhere."""

    code = "upstream_connection_failed"
    kind = Kind.CONNECT


class TimedOut(EngineError):
    """A phase (connect, first data, gap, whole answer) took longer than its limit; `kind` says which."""

    status = 504
    code = "upstream_timeout"

    def __init__(self, message: str, *, kind: Kind, engine: str = "") -> None:
        super().__init__(message, engine=engine, kind=kind)


class StreamBroken(EngineError):
    """The answer began and ended early. What was sent cannot be taken back, so no other engine is simply asked."""

    code = "upstream_stream_broken"
    kind = Kind.BROKEN


class Unavailable(EngineError):
    """We refused to ask: the breaker is open, the queue is full or the engine is drained."""

    status = 503
    code = "engine_unavailable"
    kind = Kind.OPEN


class RateLimited(Unavailable):
    """We refused to ask: the upstream said that its rate limit is used up until `retry_after_s` from now."""

    status = 429
    code = "rate_limit_exceeded"
    kind = Kind.LIMITED


class Declined(Unavailable):
    """The engine has no answer to this request: who is next is asked as if it had not been planned."""

    code = "engine_declined"


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


class Unsayable(Unavailable):
    """We did not ask: what is asked cannot be said in the engine's API. `refusal` says what."""

    status = 400
    code = "not_translatable"
    kind = Kind.REFUSED

    def __init__(self, refusal: RequestError, *, engine: str) -> None:
        super().__init__(refusal.message, engine=engine)
        self.refusal = refusal
