"""Every request comes in here, and leaves with an answer in OpenAI's shape, a log line and its metrics.

One function around the handlers instead of a chain of middlewares: the way in and the way out read in one piece.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog
from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.web_protocol import RequestPayloadError
from multidict import MultiMapping

from engines.codecs.table import request_id_header
from engines.errors import EngineError, RequestError
from engines.tracing import Trace, enter
from gateway.access.families import api_of
from gateway.admission import Admission
from gateway.cache_control import cache_control
from gateway.cors import is_preflight, preflight
from gateway.endpoints.handler import Handler
from gateway.errors import ending
from gateway.guardrails.contract import Withheld
from gateway.guardrails.stage import Guardrails
from gateway.http.plain import PlainRequest
from gateway.journey import arrival
from gateway.keys import Authenticator, Sender
from gateway.limits.errors import LimitReached
from gateway.limits.headers import TICKET
from gateway.own_response import engine_error_response, error_response
from gateway.paths import origin_form
from gateway.routes import Routes
from gateway.send import ClientGone
from gateway.websocket import wants_upgrade
from router.asked import Admitted, Arrival
from router.finished import Journey, Outcome

if TYPE_CHECKING:
    from gateway.endpoints.usage import Bills
    from gateway.limits.limiter import Limiter, Ticket

log = structlog.get_logger(__name__)


class EntryHandler:
    """The aiohttp handler of the whole gateway.

    `began` is called for every request. `ended` takes the end of each that never reached the pipeline, exactly once, also
    when it is cancelled; it must not block. The pipeline reports the others itself. `trace_of` gives a request's place in a
    distributed trace, from its headers; None: it has none.
    """

    def __init__(
        self,
        routes: Routes,
        keys: Authenticator,
        admission: Admission,
        limiter: Limiter | None = None,
        *,
        began: Callable[[], None],
        ended: Callable[[Journey], None],
        guardrails: Guardrails | None = None,
        trace_of: Callable[[MultiMapping[str]], Trace] | None = None,
        bills: Bills | None = None,
        answers_preflights: bool = False,
    ) -> None:
        """`bills`: is told of every request once it is known whose it is. `answers_preflights`: browsers' are answered here
        also while there are no keys."""
        self._answers_preflights = answers_preflights
        self._bills = bills
        self._routes = routes
        self._keys = keys
        self._admission = admission
        self._limiter = limiter
        self._began = began
        self._ended = ended
        self._guardrails = guardrails
        self._trace_of = trace_of

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        target = origin_form(request.raw_path)
        journey = Journey(arrival(request.method, target.partition("?")[0]))
        if self._trace_of is not None:
            trace = self._trace_of(request.headers)
            journey.arrival = replace(journey.arrival, trace=trace)
            enter(trace)
        handler: Handler
        self._began()
        try:
            if not isinstance(request, PlainRequest):
                _refuse_ambiguous(request)
            journey.stored = not cache_control(request.headers).no_store
            if is_preflight(request) and (self._answers_preflights or self._keys.strips_credentials):
                handler, rest, needs_key = preflight, target, False
            else:
                handler, rest, needs_key = self._routes.find(request.method, target)
            if needs_key:
                request = await self._let_in(request, rest, journey)
            elif "Expect" in request.headers:
                await _continue(request)
            response = await handler(request, rest, journey)
        except BaseException as error:
            response = _answer_to(error, request, journey)
        finally:
            if (ticket := request.get(TICKET)) is not None:
                ticket.leave()
            if not journey.in_pipeline:
                journey.end()
                self._ended(journey)
        return response if ticket is None else ticket.told(response)

    async def _let_in(self, request: web.BaseRequest, target: str, journey: Journey) -> web.BaseRequest:
        """The request as it is to be answered, once its key and its limits let it in. Raises RequestError."""
        sender = self._identified(request, target, journey)
        journey.arrival = self._admission.arrived(journey.arrival, sender, target)
        if self._bills is not None:
            self._bills.opened(journey.arrival)
        holder = sender if sender is not None and sender.key is not None else None
        ticket: Ticket | None = None
        if holder is not None and self._limiter is not None:
            ticket = self._limiter.ticket(journey.arrival.id, holder)
        if ticket is not None:
            request[TICKET] = ticket
            await ticket.enter()
        if "Expect" in request.headers:
            await _continue(request)
        if holder is not None:
            journey.arrival = await self._admission.request(request, target, holder, journey.arrival)
        if ticket is not None:
            await ticket.named(journey.arrival.user)
        if isinstance(journey.arrival, Admitted):
            journey.admitted = journey.arrival
        if self._guardrails is not None:
            request = await self._guardrails.arrived(request, target, journey)
        return request

    def _identified(self, request: web.BaseRequest, target: str, journey: Journey) -> Sender | None:
        try:
            return self._keys.identified(request.headers)
        except RequestError:
            # The refusal is said as its API says it.
            journey.arrival = journey.arrival.of(Arrival, api_of(target), journey.arrival.tenant)
            raise


def _answer_to(error: BaseException, request: web.BaseRequest, journey: Journey) -> web.Response:
    """The answer to a request that failed with `error`, which is noted. Raises it where nothing can be answered."""
    if isinstance(error, RequestPayloadError):
        error = _Unreadable("The request body is not valid HTTP.", code="bad_http")
    elif isinstance(error, UnicodeEncodeError):
        error = RequestError("A request header is not valid UTF-8.", code="invalid_header")
    api = journey.arrival.api
    journey.failed(ending(error, gone=request.transport is None, sent_all=journey.sent_all))
    if isinstance(error, RequestError):
        response = error_response(
            error.status,
            error.message,
            code=error.code,
            param=error.param,
            retry_after_s=error.retry_after_s,
            api=api,
        )
        if isinstance(error, Withheld):
            journey.guardrail = response.headers["x-understudy-guardrail"] = error.guardrail
        if isinstance(error, LimitReached):
            response.headers.update(error.headers)
        if isinstance(error, _Unreadable) or error.status == 408:
            response.force_close()
    elif isinstance(error, EngineError):
        response = engine_error_response(error, api)
    elif (
        isinstance(error, ClientGone)
        or journey.outcome is Outcome.ABORTED
        or not isinstance(error, Exception)
    ):
        raise error
    else:
        log.error("unexpected_error", request=journey.arrival.id, path=journey.arrival.path, error=error)
        if request.writer.output_size > 0:
            # Another answer has begun on this connection: closing it is all that is left.
            raise error
        response = error_response(500, "The gateway failed on this request.", code="internal_error", api=api)
    response.headers[request_id_header(api)] = response.headers["x-request-id"] = journey.arrival.id
    return response


class _Unreadable(RequestError):
    """Where this request ends, or what its connection becomes, is not certain: the connection is closed after the answer."""


def _refuse_ambiguous(request: web.BaseRequest) -> None:
    """Refuse what aiohttp's parser lets through, and another server might read differently (RFC 9112 §6.1, §11.2)."""
    if request.method == "CONNECT":
        raise _Unreadable("This gateway opens no tunnels.", status=405, code="method_not_allowed")
    if request.version < HttpVersion10:
        raise _Unreadable("The request line names no version of HTTP.", code="bad_http")
    coding = request.headers.get("Transfer-Encoding")
    if coding is not None and (coding.lower() != "chunked" or request.version < HttpVersion11):
        raise _Unreadable(
            "The only Transfer-Encoding taken here is chunked, in HTTP/1.1.", code="bad_framing"
        )
    if wants_upgrade(request) and (request.method != "GET" or request.body_exists):
        raise _Unreadable("A WebSocket handshake is a GET without a body.", code="bad_handshake")


async def _continue(request: web.BaseRequest) -> None:
    if request.version == HttpVersion10:
        return
    if request.headers["Expect"].lower() != "100-continue":
        raise RequestError(
            "The only expectation known here is 100-continue.", status=417, code="expectation_failed"
        )
    if request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
