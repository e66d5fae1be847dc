"""How a request ends with each error; `engines.error_body` says it in OpenAI's shape."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from engines.error_body import error_body as error_body
from engines.error_body import error_event as error_event
from engines.errors import EngineError, RequestError
from gateway.send import ClientGone
from router.finished import Ending, Outcome

ENDED_IN_ERROR = "The upstream's stream ended with an error."
"""What is noted of a stream whose last event says that it failed; it is passed on as it came."""


def last_event(headers: Mapping[str, str], error: EngineError) -> bytes | None:
    """What ends an event stream with these headers that broke; None for an answer that nobody could read it in."""
    if "Content-Encoding" in headers or "Content-Length" in headers:
        return None
    if not headers.get("Content-Type", "").lower().startswith("text/event-stream"):
        return None
    return error.event or error_event(error.message, error.code)


def ending(error: BaseException, *, gone: bool, sent_all: bool = False) -> Ending:
    """How a request ends with this error; `gone`: its reader has left; `sent_all`: after the last event of its stream."""
    if isinstance(error, asyncio.CancelledError | ClientGone):
        return Ending(Outcome.ANSWERED if sent_all else Outcome.ABORTED, 0, "")
    if isinstance(error, RequestError):
        outcome = Outcome.REFUSED if error.status < 500 else Outcome.UNAVAILABLE
        return Ending(outcome, error.status, error.code, told=error.message)
    if isinstance(error, EngineError):
        return Ending(Outcome.FAILED, error.status, error.message, error.engine, error.message)
    if isinstance(error, UnicodeEncodeError):
        return Ending(Outcome.REFUSED, 400, "invalid_header")
    if gone:
        return Ending(Outcome.ABORTED, 0, "")
    return Ending(Outcome.FAILED, 500, type(error).__name__)
