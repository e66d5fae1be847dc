"""Our own errors in OpenAI's shape: what an OpenAI SDK turns into the right exception class."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import orjson

from engines.errors import EngineError, RequestError
from gateway.send import ClientGone
from router.finished import Outcome

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    431: "invalid_request_error",
}


def error_body(status: int, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
    """The JSON body of an error."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return orjson.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}})


def error_event(message: str, code: str) -> bytes:
    """An SSE event that tells a client its stream broke. The leading blank line ends whatever event was cut."""
    body = error_body(502, message, code=code)
    return b"\n\ndata: " + body + b"\n\n"


class Ending(NamedTuple):
    """How a request ended that raised something."""

    outcome: Outcome
    status: int
    """0 where nothing was sent because of it: the reader has left."""
    error: str
    engine: str | None = None
    """Which engine failed; None where the error tells of none."""


def ending(error: BaseException, *, gone: bool, sent_all: bool = False) -> Ending:
    """How a request ends with this error; `gone`: its reader has left; `sent_all`: after the last event of its stream."""
    if isinstance(error, asyncio.CancelledError | ClientGone):
        return Ending(Outcome.ANSWERED if sent_all else Outcome.ABORTED, 0, "")
    if isinstance(error, RequestError):
        return Ending(Outcome.REFUSED, error.status, error.code)
    if isinstance(error, EngineError):
        return Ending(Outcome.FAILED, error.status, error.message, error.engine)
    if isinstance(error, UnicodeEncodeError):
        return Ending(Outcome.REFUSED, 400, "invalid_header")
    if gone:
        return Ending(Outcome.ABORTED, 0, "")
    return Ending(Outcome.FAILED, 500, type(error).__name__)
