"""The door: every request comes in here and leaves with an answer in OpenAI's shape, a log line and its metrics.

One function around the handlers instead of a chain of middlewares: the way in and the way out read in one piece.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

import structlog
from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.web_protocol import RequestPayloadError

from engines.errors import EngineError, RequestError
from gateway.errors import engine_error_response, error_response
from gateway.handlers.handler import Handler
from gateway.journey import Journey, Outcome
from gateway.keys import Gatekeeper
from gateway.relay import ClientGone
from gateway.websocket import wants_upgrade

log = structlog.get_logger(__name__)


class Routes(Protocol):
    """Finds the handler of a request."""

    def find(self, method: str, target: str) -> tuple[Handler, str, bool]:
        """(handler, target below the prefix, whether a key is needed). Raises RequestError (404, 405)."""
        ...


class Door:
    """The aiohttp handler of the whole gateway."""

    def __init__(
        self, routes: Routes, keys: Gatekeeper, *, began: Callable[[], None], ended: Callable[[Journey], None]
    ) -> None:
        """`ended` takes every finished journey exactly once, also a cancelled one; it must not block."""
        self._routes = routes
        self._keys = keys
        self._began = began
        self._ended = ended

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        target = origin_form(request.raw_path)
        journey = Journey.begin(request, target.partition("?")[0])
        self._began()
        try:
            response = await self._answer(request, target, journey)
        except asyncio.CancelledError:
            journey.outcome = Outcome.ABORTED
            raise
        finally:
            journey.ended = time.perf_counter()
            self._ended(journey)
        return response

    async def _answer(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        try:
            _refuse_ambiguous(request)
            handler, rest, needs_key = self._routes.find(request.method, target)
            if needs_key:
                self._keys.admit(request, journey)
            if "Expect" in request.headers:
                await _continue(request)
            return await handler(request, rest, journey)
        except RequestError as error:
            journey.outcome, journey.status, journey.error = Outcome.REFUSED, error.status, error.code
            response = error_response(error.status, error.message, code=error.code, param=error.param)
            if isinstance(error, _Ambiguous):
                response.force_close()
        except RequestPayloadError:
            journey.outcome, journey.status, journey.error = Outcome.REFUSED, 400, "bad_http"
            response = error_response(400, "The request body is not valid HTTP.", code="bad_http")
            response.force_close()
        except UnicodeEncodeError:
            journey.outcome, journey.status, journey.error = Outcome.REFUSED, 400, "invalid_header"
            response = error_response(400, "A request header is not valid UTF-8.", code="invalid_header")
        except EngineError as error:
            journey.outcome, journey.status, journey.error = Outcome.FAILED, error.status, error.message
            journey.engine = error.engine
            response = engine_error_response(error)
        except ClientGone:
            journey.outcome = Outcome.ABORTED
            raise
        except Exception as error:
            if request.transport is None:
                journey.outcome = Outcome.ABORTED
                raise
            journey.outcome, journey.status, journey.error = Outcome.FAILED, 500, type(error).__name__
            log.error("unexpected_error", request=journey.id, path=journey.path, error=error)
            if request.writer.output_size > 0:
                # Another answer has begun on this connection: closing it is all that is left.
                raise
            response = error_response(500, "The gateway failed on this request.", code="internal_error")
        response.headers["x-request-id"] = journey.id
        return response


def origin_form(target: str) -> str:
    """A raw request target without the scheme and host that an absolute-form one carries (RFC 9112 §3.2.2)."""
    if target.startswith("/"):
        return target
    scheme, separator, rest = target.partition("://")
    if separator and scheme.isalpha():
        authority = rest.partition("?")[0].partition("/")[0]
        return rest[len(authority) :] or "/"
    return "/" + target if target != "*" else target


class _Ambiguous(RequestError):
    """Where this request ends, or what its connection becomes, is not certain: nothing after it can be read."""


def _refuse_ambiguous(request: web.BaseRequest) -> None:
    """What aiohttp's parser lets through, and another server might read differently (RFC 9112 §6.1, §11.2)."""
    if request.method == "CONNECT":
        raise _Ambiguous("This gateway opens no tunnels.", status=405, code="method_not_allowed")
    if request.version < HttpVersion10:
        raise _Ambiguous("The request line names no version of HTTP.", code="bad_http")
    coding = request.headers.get("Transfer-Encoding")
    if coding is not None and (coding.lower() != "chunked" or request.version < HttpVersion11):
        raise _Ambiguous("The only Transfer-Encoding taken here is chunked, in HTTP/1.1.", code="bad_framing")
    if wants_upgrade(request) and (request.method != "GET" or request.body_exists):
        raise _Ambiguous("A WebSocket handshake is a GET without a body.", code="bad_handshake")


async def _continue(request: web.BaseRequest) -> None:
    if request.version == HttpVersion10:
        return
    if request.headers["Expect"].lower() != "100-continue":
        raise RequestError(
            "The only expectation known here is 100-continue.", status=417, code="expectation_failed"
        )
    if request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
