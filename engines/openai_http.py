"""Any OpenAI-compatible API over HTTP: bytes out, bytes in, nothing parsed once a stream has come to its data.

Refuses to know retries, limits and breakers (engines.guard), and what the bytes mean.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict
from yarl import URL

from engines.answer_times import FirstDataTimes
from engines.answers.beginning import holds_data
from engines.engine import EngineInfo, EngineLoad, EngineReply, EngineRequest
from engines.errors import ConnectFailed, EngineError, Kind, StreamBroken, TimedOut
from engines.headers import (
    ForbiddenCharacter,
    holds_credential,
    response_headers,
    without_credentials,
    without_key_parameters,
)
from engines.raw_headers import install
from engines.timeouts import Phases, Timeouts, model_of
from engines.tracing import UpstreamCall, call_to

HEALTH_AGENT = "understudy-health"
"""What a health check calls itself, so that an upstream's log tells it from clients' requests."""
_NOTHING_INVENTED = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
"""Headers aiohttp would add by itself: the upstream sees what the client sent, no more."""

_KEEPALIVE_S = 4.0
"""Below the 5 s after which uvicorn (and so vLLM) closes an idle connection: reusing one at that very moment would fail
a request that was never at fault."""

_PIECE_BYTES = 256 * 1024
"""A larger body leaves in pieces of this size."""

_LOOKED_AT_BYTES = 256 * 1024
"""A stream that has said nothing in so much is taken to have begun."""
_HEAD_QUICK_S = 0.5
_NOT_IMPLEMENTED = 501
_HEALTH_S = 5.0
_SOON_S = 0.001

_CLOSED = frozenset({errno.ECONNRESET, errno.EPIPE})

_FOREIGN = (aiohttp.ClientError, TimeoutError, OSError)
"""What aiohttp raises of a request that fails."""

# Once for all sessions of this process.
install()


class _Unanswered(aiohttp.ServerDisconnectedError):
    """A connection that had been kept alive was closed without a byte of an answer."""


class _Connection(ResponseHandler):
    """aiohttp's connection, except that the reader of a body whose framing breaks is told: it would wait for ever; and that
    it tells whether it was kept alive."""

    _requests = 0

    def set_response_params(self, **params: Any) -> None:
        self._requests += 1
        super().set_response_params(**params)

    def set_exception(self, exc: BaseException, exc_cause: BaseException | None = None) -> None:
        if self._requests > 1 and _says_nothing(exc):
            exc = _Unanswered()
        super().set_exception(exc, *(() if exc_cause is None else (exc_cause,)))
        if isinstance(exc, HttpProcessingError) and self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(aiohttp.ClientPayloadError())


def _says_nothing(error: BaseException) -> bool:
    """Whether a connection was closed before an answer began; else aiohttp's error holds what came of its head."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return isinstance(error.message, str)
    return isinstance(error, aiohttp.ClientOSError) and error.errno in _CLOSED


class Exchange:
    """One request and its answer: the context manager that OpenAIHTTP.stream returns.

    A class and not a generator: what the body of the `async with` raises (a client that left, say) must pass through as
    it is, and never be taken for a failure of the upstream.
    """

    __slots__ = ("_began", "_call", "_engine", "_phases", "_request", "_response")

    @property
    def response(self) -> aiohttp.ClientResponse:
        """The answer below the reply, for those who must have its connection. Only inside the context."""
        assert self._response is not None
        return self._response

    def __init__(self, engine: OpenAIHTTP, request: EngineRequest) -> None:
        self._engine = engine
        self._request = request
        self._response: aiohttp.ClientResponse | None = None
        self._phases = engine.timeouts.phases(request, engine.first_data_times)
        self._began = 0.0
        self._call: UpstreamCall | None = None

    async def __aenter__(self) -> EngineReply:
        engine = self._engine
        engine.in_flight += 1
        self._began = time.monotonic()
        self._request, call = engine.traced(self._request)
        self._call = call
        try:
            try:
                response = self._response = await engine.sent(self._request, self._phases)
            except _Unanswered:
                # Its server closed a kept-alive connection just then, without a byte: it is sent once more.
                if not engine.resends or not isinstance(self._request.body, bytes):
                    raise
                response = self._response = await engine.sent(self._request, self._phases)
            headers = engine.checked_headers(self._request, response)
        except BaseException as error:
            engine.in_flight -= 1
            if self._response is not None:
                self._response.close()
            if isinstance(error, _FOREIGN):
                kind = Kind.TIMEOUT_ANSWER if _is_plain(self._request) else Kind.TIMEOUT_FIRST_DATA
                translated = engine.translated(error, self._phases, kind)
                _note(call, translated)
                raise translated from error
            _note(call, error)
            raise
        if call is not None:
            call.status = response.status
        return EngineReply(
            response.status,
            headers,
            self._chunks(response),
            engine=engine.info.name,
            self_delimiting="Content-Length" in response.headers or "Transfer-Encoding" in response.headers,
            reason=response.reason if response.reason and response.reason.isprintable() else None,
        )

    async def __aexit__(self, *_: object) -> None:
        self._engine.in_flight -= 1
        if self._call is not None:
            self._call.end()
        response = self._response
        if response is None:
            return
        if response.content.at_eof():
            response.release()
        else:
            # Not drained, so the connection cannot be reused, and closing it is what tells the upstream to stop.
            response.close()

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises engines.errors.EngineError when it ends early or stalls."""
        protocol = response.connection.protocol if response.connection else None
        engine, content, phases, kind = self._engine, response.content, self._phases, Kind.TIMEOUT_FIRST_DATA
        events = response.content_type == "text/event-stream"
        readable = events and "Content-Encoding" not in response.headers
        plain = not events and _is_plain(self._request)
        if plain:
            kind = Kind.TIMEOUT_ANSWER
        until = self._began + (phases.answer_s if plain else phases.first_data_s)
        if protocol is not None and time.monotonic() - self._began > _HEAD_QUICK_S:
            # The timer began anew when the head came.
            _limit(protocol, until - time.monotonic())
        seen = b""
        try:
            while chunk := await content.readany():
                if readable:
                    seen += chunk
                if plain or (readable and not holds_data(seen) and len(seen) <= _LOOKED_AT_BYTES):
                    if protocol is not None and not content.is_eof():
                        _limit(protocol, until - time.monotonic())
                    yield chunk
                    continue
                if protocol is not None:
                    # The limit set until now was for the first data, and so was the timer that is running.
                    protocol.read_timeout = phases.gap_s
                    if not content.is_eof():
                        protocol.start_timeout()
                kind = Kind.TIMEOUT_GAP
                if events:
                    engine.first_data_times.took(model_of(self._request), time.monotonic() - self._began)
                if events and self._call is not None:
                    self._call.first_chunk_at = time.perf_counter()
                yield chunk
                break
            while chunk := await content.readany():
                yield chunk
        except _FOREIGN as error:
            translated = engine.translated(error, phases, kind, began=True)
            _note(self._call, translated)
            raise translated from error


def _note(call: UpstreamCall | None, error: BaseException) -> None:
    """How a request to an upstream failed, for its trace."""
    if call is not None:
        call.failed(str(error.kind) if isinstance(error, EngineError) else type(error).__name__)
        call.end()


def _limit(protocol: ResponseHandler, seconds: float) -> None:
    """How long the next chunk may take, from now."""
    protocol.read_timeout = max(_SOON_S, seconds)
    protocol.start_timeout()


def _is_plain(request: EngineRequest) -> bool:
    """Whether the answer is known to be no stream."""
    return request.plain if request.chat is None else not request.chat.stream


class OpenAIHTTP:
    """One upstream base URL.

    `authorization`, the value of `key_header`, is sent instead of the client's headers that hold a credential. Without it
    they are passed on, or left out where `forwards_credentials` is off; then a key in the query is left out, too.
    `credential_headers`: further names of headers that hold one. `extra_headers` are set on every request. The URL comes
    from the operator's configuration, never from a request. `resends`: a request is sent once more if its connection had
    been kept alive and is closed without an answer. `proxy`: what it is asked through (engines.proxies).
    """

    key_header = "Authorization"
    """Where a key of the gateway's own stands."""

    def __init__(
        self,
        info: EngineInfo,
        base_url: str,
        *,
        timeouts: Timeouts,
        authorization: str | None = None,
        forwards_credentials: bool = True,
        credential_headers: Sequence[str] = (),
        extra_headers: Mapping[str, str] | None = None,
        resends: bool = True,
        proxy: URL | None = None,
    ) -> None:
        self.info = info
        self.base_url = base_url.rstrip("/")
        self._base = URL(self.base_url)
        self.in_flight = 0
        self._authorization = authorization
        self._forwards_credentials = forwards_credentials
        self._credential_headers = tuple(credential_headers)
        self._extra_headers = dict(extra_headers or {})
        self.resends = resends
        self._proxy = proxy
        self.timeouts = timeouts
        self.first_data_times = FirstDataTimes()
        self._session: aiohttp.ClientSession | None = None
        self._url = functools.lru_cache(maxsize=1024)(self._build_url)
        self.own_keys: Mapping[str, str] = {}
        """Tenants that have a key of their own here, by id: the value of `key_header` that is sent of their requests."""

    def stream(self, request: EngineRequest) -> Exchange:
        """Ask, and hand over the answer once its head is here. See engines.engine.Engine.stream."""
        return Exchange(self, request)

    def traced(self, request: EngineRequest) -> tuple[EngineRequest, UpstreamCall | None]:
        """See engines.tracing.call_to."""
        return call_to(
            request,
            engine=self.info.name,
            replica=self.info.replica,
            host=self._base.host or "",
            port=self._base.port or 0,
        )

    def sent(self, request: EngineRequest, phases: Phases) -> Awaitable[aiohttp.ClientResponse]:
        """The head of the answer, to be awaited. Raises what aiohttp raises: see `translated`."""
        headers, body = self._outgoing(request), request.body
        if isinstance(body, bytes) and len(body) > _PIECE_BYTES:
            # aiohttp would copy all of it at once, to send it together with the head.
            headers = headers.copy()
            headers["Content-Length"] = str(len(body))
            body = _in_pieces(body)
        return self._open_session().request(
            request.method,
            self._url(
                request.target if self._forwards_credentials else without_key_parameters(request.target),
                request.below,
            ),
            data=body or None,
            headers=headers,
            allow_redirects=False,
            timeout=_client_timeout(
                phases.connect_s, phases.answer_s if _is_plain(request) else phases.first_data_s
            ),
        )

    def checked_headers(self, request: EngineRequest, response: aiohttp.ClientResponse) -> CIMultiDict[str]:
        """The headers to pass on. Raises ConnectFailed for an answer that could only be passed on as another one."""
        coding = response.headers.get("Transfer-Encoding", "chunked").lower()
        if coding not in ("chunked", "identity"):
            wrong = "has a Transfer-Encoding not known here"
        elif response.status < 200 and not (response.status == 101 and "Upgrade" in request.headers):
            wrong = f"has the status {response.status}, which nothing asked for"
        else:
            try:
                return response_headers(response.headers)
            except ForbiddenCharacter:
                wrong = "has a header that holds a control character"
        raise ConnectFailed(f"The upstream's answer {wrong}.", engine=self.info.name)

    def load(self) -> EngineLoad:
        """Requests now under way here; what else the upstream serves is not known."""
        return EngineLoad(in_flight=self.in_flight)

    async def health(self) -> None:
        """See engines.engine.Engine.health: `GET /models` must be answered at most 5 s later, by less than 500,
        or by 501: a server that lives and has no such page."""
        request = EngineRequest("GET", "/models", CIMultiDict({"User-Agent": HEALTH_AGENT}), b"")
        try:
            async with (
                asyncio.timeout(min(_HEALTH_S, self.timeouts.connect_s)),
                self.stream(request) as reply,
            ):
                status = reply.status
        except TimeoutError:
            text = "The health check (GET /models) was not answered in time."
            raise TimedOut(text, kind=Kind.TIMEOUT_ANSWER, engine=self.info.name) from None
        if status >= 500 and status != _NOT_IMPLEMENTED:
            raise EngineError(f"The health check (GET /models) got {status}.", engine=self.info.name)

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=60, keepalive_timeout=_KEEPALIVE_S)
            # There is no public way to say which connections a connector makes.
            connector._factory = functools.partial(  # type: ignore[assignment]
                _Connection, asyncio.get_running_loop()
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=_NOTHING_INVENTED,
                auto_decompress=False,
                trust_env=False,
                proxy=self._proxy,
                max_line_size=64 * 1024,
                max_field_size=64 * 1024,
            )
            # Nor to keep it from sending a GET twice.
            self._session._retry_connection = self.resends
        return self._session

    def _build_url(self, target: str, below: str | None = None) -> URL:
        # With encoded=True nothing is re-quoted, and the query rides inside `path`: the upstream gets the raw request
        # target byte for byte, even a lone trailing "?" that a parsed URL would lose.
        base = self._base
        path = base.raw_path.rstrip("/")
        path = (path if below is None else path.removesuffix("/v1") + below) + target
        return URL.build(scheme=base.scheme, authority=base.raw_authority, path=path or "/", encoded=True)

    def _outgoing(self, request: EngineRequest) -> CIMultiDict[str]:
        headers = request.headers
        own = self.own_keys.get(request.tenant) if self.own_keys else None
        if own is not None:
            headers = without_credentials(headers, self._credential_headers)
            headers.update(self._extra_headers)
            for name in filter(holds_credential, self._extra_headers):
                headers.popall(name, None)
            headers[self.key_header] = own
            return headers
        if self._authorization is not None or not self._forwards_credentials:
            headers = without_credentials(headers, self._credential_headers)
        elif self._extra_headers:
            headers = headers.copy()
        if self._authorization is not None:
            headers[self.key_header] = self._authorization
        if self._extra_headers:
            headers.update(self._extra_headers)
        return headers

    def translated(self, error: Exception, phases: Phases, kind: Kind, *, began: bool = False) -> EngineError:
        """Foreign errors become ours at this border, once. The text names the limit, never a header or a URL's query.

        `kind`: of a timeout now. `began`: the head of the answer is here.
        """
        name = self.info.name
        where = f"{self._base.host}:{self._base.port}"
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            text = f"No connection to {where} within {phases.connect_s:g} s (connect_s)."
            return TimedOut(text, kind=Kind.TIMEOUT_CONNECT, engine=name)
        if isinstance(error, aiohttp.SocketTimeoutError):
            return TimedOut(_too_late(phases, kind), kind=kind, engine=name)
        if began:
            return StreamBroken(
                "The upstream closed the connection before its answer was complete.", engine=name
            )
        if isinstance(error, aiohttp.ClientHttpProxyError):
            return ConnectFailed(f"The proxy opened no connection to {where}: {error.status}.", engine=name)
        if isinstance(error, aiohttp.ClientProxyConnectionError):
            text = f"No connection to the proxy before {where}: {_reason(error.os_error)}."
            return ConnectFailed(text, engine=name)
        if isinstance(error, aiohttp.ClientResponseError):
            return ConnectFailed("The upstream's answer was not valid HTTP.", engine=name, kind=Kind.INVALID)
        if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError):
            return ConnectFailed("The upstream closed the connection without answering.", engine=name)
        if isinstance(error, aiohttp.ClientConnectorDNSError):
            text = f"No connection to {where}: {_reason(error.os_error)}."
            return ConnectFailed(text, engine=name, kind=Kind.DNS)
        if isinstance(error, aiohttp.ClientSSLError):
            cause = (
                error.certificate_error
                if isinstance(error, aiohttp.ClientConnectorCertificateError)
                else error.os_error
            )
            return ConnectFailed(
                f"No connection to {where}: TLS: {_tls_reason(cause)}.", engine=name, kind=Kind.TLS
            )
        if isinstance(error, aiohttp.ClientConnectorError):
            return ConnectFailed(f"No connection to {where}: {_reason(error.os_error)}.", engine=name)
        # Never str(error): it may quote the URL, and a query may hold a key.
        reason = _reason(error) if isinstance(error, OSError) else type(error).__name__
        return ConnectFailed(f"The connection to the upstream failed: {reason}.", engine=name)


@functools.lru_cache(maxsize=64)
def _client_timeout(connect_s: float, read_s: float) -> aiohttp.ClientTimeout:
    # `connect` bounds the name's resolution, too; it is looked at only where no connection is there.
    return aiohttp.ClientTimeout(connect=connect_s, sock_connect=connect_s, sock_read=read_s)


def _too_late(phases: Phases, kind: Kind) -> str:
    if kind is Kind.TIMEOUT_GAP:
        return f"The upstream sent nothing for {phases.gap_s:g} s in the middle of its answer (gap_s)."
    if kind is Kind.TIMEOUT_ANSWER:
        return f"The upstream's answer was not complete after {phases.answer_s:g} s (answer_s)."
    return f"The upstream sent no data for {phases.first_data_s:g} s (first_data_s)."


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), _PIECE_BYTES):
        yield body[start : start + _PIECE_BYTES]


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return error.strerror or "the name does not resolve"
    return os.strerror(error.errno) if error.errno else type(error).__name__


def _tls_reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return type(error).__name__
