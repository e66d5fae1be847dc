"""Any OpenAI-compatible API over HTTP: bytes out, bytes in, nothing parsed once a stream has come to its data.

Refuses to know retries, limits and breakers (engines.servers), and what the bytes mean.
"""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Required, TypedDict

from multidict import CIMultiDict
from yarl import URL

from engines.aiohttp_client import AiohttpClient
from engines.answers.beginning import holds_data
from engines.connection import Origin
from engines.engine import EngineInfo, EngineLoad, EngineReply, EngineRequest
from engines.errors import ConnectFailed, EngineError, Kind, StreamBroken, TimedOut
from engines.exchanges import (
    Answer,
    ConnectTimeout,
    Cut,
    Disconnected,
    Failure,
    Invalid,
    NotConnected,
    ProxyRefused,
    ReadTimeout,
    Take,
)
from engines.headers import (
    ForbiddenCharacter,
    holds_credential,
    response_headers,
    without_credentials,
    without_key_parameters,
)
from engines.timeouts import FirstDataTimes, Phases, Timeouts, model_of
from engines.tracing import UpstreamCall, call_to

HEALTH_AGENT = "understudy-health"
"""What a health check calls itself, so that an upstream's log tells it from clients' requests."""
_ODD = ("Upgrade", "Expect", "Transfer-Encoding")
"""Headers of requests that engines.connection does not take."""
_LOOKED_AT_BYTES = 256 * 1024
"""A stream that has said nothing in so much is taken to have begun."""
_HEAD_QUICK_S = 0.5
_NOT_IMPLEMENTED = 501
_HEALTH_S = 5.0


class Exchange:
    """One request and its answer: the context manager that OpenAIHTTP.stream returns.

    A class and not a generator: what the body of the `async with` raises (a client that left, say) must pass through as
    it is, and never be taken for a failure of the upstream.
    """

    __slots__ = ("_answer", "_began", "_call", "_engine", "_flows", "_phases", "_request")

    @property
    def answer(self) -> Answer:
        """The answer below the reply, for those who must have its connection. Only inside the context."""
        assert self._answer is not None
        return self._answer

    def __init__(self, engine: OpenAIHTTP, request: EngineRequest) -> None:
        self._engine = engine
        self._request = request
        self._answer: Answer | None = None
        self._phases = engine.timeouts.phases(request, engine.first_data_times)
        self._began = 0.0
        self._flows = False
        self._call: UpstreamCall | None = None

    async def __aenter__(self) -> EngineReply:
        engine = self._engine
        engine.in_flight += 1
        self._began = time.monotonic()
        self._request, call = engine.traced(self._request)
        self._call = call
        try:
            answer = self._answer = await engine.sent(self._request, self._phases)
            headers = engine.checked_headers(self._request, answer)
        except BaseException as error:
            engine.in_flight -= 1
            if self._answer is not None:
                self._answer.release()
            if isinstance(error, Failure):
                kind = Kind.TIMEOUT_ANSWER if _is_plain(self._request) else Kind.TIMEOUT_FIRST_DATA
                translated = engine.translated(error, self._phases, kind)
                _note(call, translated)
                raise translated from error
            _note(call, error)
            raise
        if call is not None:
            call.status = answer.status
        reason = answer.reason
        return EngineReply(
            answer.status,
            headers,
            self._chunks(answer),
            engine=engine.info.name,
            flow=self.flow,
            self_delimiting="Content-Length" in answer.headers or "Transfer-Encoding" in answer.headers,
            reason=reason if reason and reason.isprintable() else None,
        )

    async def __aexit__(self, *_: object) -> None:
        self._engine.in_flight -= 1
        if self._call is not None:
            self._call.end()
        if self._answer is not None:
            # One that is not taken whole is not drained: closing its connection is what tells the upstream to stop.
            self._answer.release()

    async def flow(self, take: Take) -> None:
        """See EngineReply.flow. Not before the data of a stream has come: until then each piece has a limit of its own."""
        if self._flows and self._answer is not None:
            await self._answer.flow(take)

    async def _chunks(self, answer: Answer) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises engines.errors.EngineError when it ends early or stalls."""
        phases = self._phases
        events = _media_type(answer.headers.get("Content-Type", "")) == "text/event-stream"
        readable = events and "Content-Encoding" not in answer.headers
        plain = not events and _is_plain(self._request)
        kind = Kind.TIMEOUT_ANSWER if plain else Kind.TIMEOUT_FIRST_DATA
        until = self._began + (phases.answer_s if plain else phases.first_data_s)
        if time.monotonic() - self._began > _HEAD_QUICK_S:
            # The timer began anew when the head came.
            answer.limit(until - time.monotonic())
        seen = b""
        try:
            while chunk := await answer.readany():
                if readable:
                    seen += chunk
                if plain or (readable and not holds_data(seen) and len(seen) <= _LOOKED_AT_BYTES):
                    answer.limit(until - time.monotonic())
                    yield chunk
                    continue
                self._flows = not plain
                # The limit set until now was for the first data, and so was the timer that is running.
                answer.limit(phases.gap_s)
                kind = Kind.TIMEOUT_GAP
                if events:
                    self._note_data()
                yield chunk
                break
            while chunk := await answer.readany():
                yield chunk
        except Failure as error:
            translated = self._engine.translated(error, phases, kind)
            _note(self._call, translated)
            raise translated from error

    def _note_data(self) -> None:
        """The first data of a stream is here."""
        self._engine.first_data_times.took(model_of(self._request), time.monotonic() - self._began)
        if self._call is not None:
            self._call.first_chunk_at = time.perf_counter()


def _note(call: UpstreamCall | None, error: BaseException) -> None:
    """How a request to an upstream failed, for its trace."""
    if call is not None:
        call.failed(str(error.kind) if isinstance(error, EngineError) else type(error).__name__)
        call.end()


def _is_plain(request: EngineRequest) -> bool:
    """Tells whether the answer is known to be no stream."""
    return request.plain if request.chat is None else not request.chat.stream


KeyOf = Callable[[], Awaitable[str]]
"""Gives the value of the header with the gateway's own key."""


class HTTPOptions(TypedDict, total=False):
    """What else an OpenAIHTTP takes, for those that stand on one."""

    timeouts: Required[Timeouts]
    authorization: str | None
    forwards_credentials: bool
    credential_headers: Sequence[str]
    extra_headers: Mapping[str, str] | None
    resends: bool
    proxy: URL | None
    tls: ssl.SSLContext | None
    key: KeyOf | None


class OpenAIHTTP:
    """One upstream base URL.

    `authorization`, the value of `key_header`, is sent instead of the client's headers that hold a credential. Without it
    they are passed on, or left out where `forwards_credentials` is off; then a key in the query is left out, too.
    `credential_headers`: further names of headers that hold one. `extra_headers` are set on every request. The URL comes
    from the operator's configuration, never from a request. `resends`: a request is sent once more if its connection had
    been kept alive and is closed without an answer. `proxy`: what it is asked through (engines.proxies). `tls`: authorities
    and a certificate of its own (engines.connection.own_tls_context). `key`, where there is one, gives
    `authorization` anew before each request, or raises engines.errors.EngineError.
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
        tls: ssl.SSLContext | None = None,
        key: KeyOf | None = None,
    ) -> None:
        self.info = info
        self.base_url = base_url.rstrip("/")
        self._base = URL(self.base_url)
        self.in_flight = 0
        self._authorization = authorization
        self._key = key
        self._forwards_credentials = forwards_credentials
        self._credential_headers = tuple(credential_headers)
        self._extra_headers = dict(extra_headers or {})
        self.resends = resends
        self.timeouts = timeouts
        self.first_data_times = FirstDataTimes()
        self._plain = None if proxy is not None or self._base.raw_user else Origin(self._base, tls)
        self._odd = AiohttpClient(proxy, resends=resends, tls=tls)
        self._path = functools.lru_cache(maxsize=1024)(self._build_path)
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

    def sent(self, request: EngineRequest, phases: Phases, *, has_key: bool = False) -> Awaitable[Answer]:
        """The answer, to be awaited until its head is here. Raises engines.exchanges.Failure, and what `key` raises.

        `has_key`: `key` was asked for this request.
        """
        if self._key is not None and not has_key:
            return self._with_key(self._key, request, phases)
        headers, body, method = self._outgoing(request), request.body, request.method
        target = request.target if self._forwards_credentials else without_key_parameters(request.target)
        path = self._path(target, request.below)
        read_s = phases.answer_s if _is_plain(request) else phases.first_data_s
        if self._plain is None or not isinstance(body, bytes) or any(map(headers.__contains__, _ODD)):
            # With encoded=True nothing is re-quoted, and the query rides inside `path`.
            url = URL.build(
                scheme=self._base.scheme, authority=self._base.raw_authority, path=path, encoded=True
            )
            return self._odd.ask(method, url, headers, body, connect_s=phases.connect_s, read_s=read_s)
        return self._plain.ask(
            method, path, headers, body, connect_s=phases.connect_s, read_s=read_s, resends=self.resends
        )

    def checked_headers(self, request: EngineRequest, answer: Answer) -> CIMultiDict[str]:
        """The headers to pass on. Raises ConnectFailed for an answer that could only be passed on as another one."""
        coding = answer.headers.get("Transfer-Encoding", "chunked").lower()
        if coding not in ("chunked", "identity"):
            wrong = "has a Transfer-Encoding not known here"
        elif answer.status < 200 and not (answer.status == 101 and "Upgrade" in request.headers):
            wrong = f"has the status {answer.status}, which nothing asked for"
        else:
            try:
                return response_headers(answer.headers)
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
        if self._plain is not None:
            await self._plain.aclose()
        await self._odd.aclose()

    def _build_path(self, target: str, below: str | None = None) -> str:
        # The upstream gets the raw request target byte for byte, even a lone trailing "?" that a parsed URL would lose.
        path = self._base.raw_path.rstrip("/")
        return ((path if below is None else path.removesuffix("/v1") + below) + target) or "/"

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

    async def _with_key(self, key: KeyOf, request: EngineRequest, phases: Phases) -> Answer:
        self._authorization = await key()
        return await self.sent(request, phases, has_key=True)

    def translated(self, error: Failure, phases: Phases, kind: Kind) -> EngineError:
        """A failure of the connection as an error of this engine. The text names the limit, never a header or a URL's query.

        `kind`: of a timeout now.
        """
        name = self.info.name
        where = f"{self._base.host}:{self._base.port}"
        if isinstance(error, ConnectTimeout):
            text = f"No connection to {where} within {phases.connect_s:g} s (connect_s)."
            return TimedOut(text, kind=Kind.TIMEOUT_CONNECT, engine=name)
        if isinstance(error, ReadTimeout):
            return TimedOut(_too_late(phases, kind), kind=kind, engine=name)
        if isinstance(error, Cut):
            return StreamBroken(
                "The upstream closed the connection before its answer was complete.", engine=name
            )
        if isinstance(error, Invalid):
            return ConnectFailed("The upstream's answer was not valid HTTP.", engine=name, kind=Kind.INVALID)
        if isinstance(error, ProxyRefused):
            return ConnectFailed(f"The proxy opened no connection to {where}: {error.status}.", engine=name)
        if isinstance(error, NotConnected):
            return _not_connected(error, where, name)
        if isinstance(error, Disconnected) and isinstance(error.cause, OSError):
            # Never str(cause): it may quote the URL, and a query may hold a key.
            text = f"The connection to the upstream failed: {_reason(error.cause)}."
            return ConnectFailed(text, engine=name)
        return ConnectFailed("The upstream closed the connection without answering.", engine=name)


def _not_connected(error: NotConnected, where: str, name: str) -> ConnectFailed:
    """Tells which phase of connecting failed, and why."""
    cause = error.cause
    if error.proxy:
        return ConnectFailed(f"No connection to the proxy before {where}: {_reason(cause)}.", engine=name)
    if isinstance(cause, ssl.SSLError):
        return ConnectFailed(
            f"No connection to {where}: TLS: {_tls_reason(cause)}.", engine=name, kind=Kind.TLS
        )
    if isinstance(cause, socket.gaierror):
        return ConnectFailed(f"No connection to {where}: {_reason(cause)}.", engine=name, kind=Kind.DNS)
    return ConnectFailed(f"No connection to {where}: {_reason(cause)}.", engine=name)


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _too_late(phases: Phases, kind: Kind) -> str:
    if kind is Kind.TIMEOUT_GAP:
        return f"The upstream sent nothing for {phases.gap_s:g} s in the middle of its answer (gap_s)."
    if kind is Kind.TIMEOUT_ANSWER:
        return f"The upstream's answer was not complete after {phases.answer_s:g} s (answer_s)."
    return f"The upstream sent no data for {phases.first_data_s:g} s (first_data_s)."


def _reason(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return error.strerror or "the name does not resolve"
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number else type(error).__name__


def _tls_reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return type(error).__name__
