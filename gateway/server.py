"""The process: event loop, sockets, signals, owned background tasks, and an ordered stop."""

from __future__ import annotations

import asyncio
import logging
import select
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
import structlog
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler, RequestPayloadError, _ErrInfo

from gateway.body_watch import BodyWatch
from gateway.cors import requests_of
from gateway.errors import error_body
from gateway.http.plain import PlainConnection, Site
from gateway.own_response import error_response

log = structlog.get_logger(__name__)

_BACKLOG = 4096
_TELL_EVERY_S = 60.0
_LOOK_EVERY_S = 0.05
_IDLE_S = 75.0
"""How long a connection may be unused."""
_FULL_BODY = error_body(
    503, "This gateway has as many open connections as it takes.", code="too_many_connections"
)
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_FULL_BODY), _FULL_BODY)
)


class _Connection(RequestHandler):
    """aiohttp's connection, for what is not plain (gateway.http.plain).

    What its parser refuses is answered, in OpenAI's shape, and at once.
    """

    def data_received(self, data: bytes) -> None:
        if self._request_in_progress and self.transport is not None:
            # Once stopping, aiohttp drops what arrives: an upload under way, or a WebSocket, could never finish.
            closing, forced = self._close, self._force_close
            self._close = self._force_close = False
            super().data_received(data)
            self._close, self._force_close = self._close or closing, self._force_close or forced
        else:
            super().data_received(data)
        # aiohttp queues the refusal behind the request whose body it broke, and lets that request wait for ever.
        if self._messages and isinstance(self._messages[-1][0], _ErrInfo):
            broken = self._messages[-2][1] if len(self._messages) > 1 else None
            if broken is None and self._current_request is not None:
                broken = self._current_request.content
            if broken is not None and not broken.is_eof():
                broken.set_exception(RequestPayloadError("The request body is not valid HTTP."))

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0 or isinstance(exc, ConnectionError):
            raise ConnectionError("the answer had begun; only closing the connection is left")
        if isinstance(exc, LineTooLong):
            status, text = 431, "A request line or header is longer than this gateway takes."
        elif status == HTTPStatus.BAD_REQUEST:
            text = "The request is not valid HTTP."
        else:
            text = HTTPStatus(status).phrase
        log.debug("bad_http", status=status, error=exc)
        response = error_response(status, text, code="bad_http" if status < 500 else "internal_error")
        response.force_close()
        return response


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What the server accepts, and how long it waits for open requests when it stops."""

    max_json_bytes: int
    max_header_bytes: int
    """Of a single header line."""
    body_gap_s: float
    """How long a client may pause in the middle of its request body."""
    max_connections: int
    grace_s: float
    cors: tuple[str, ...]
    """Origins whose pages may read answers: gateway.cors."""


class _Server(web.Server):
    """aiohttp's low-level server with our connections."""

    def __call__(self) -> RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


class _Fullness:
    """Whether the newest connection is one too many. Says so in the log, once a minute."""

    def __init__(self, limit: int, connections: Callable[[], int]) -> None:
        self._limit = limit
        self._connections = connections
        self._told_at = -_TELL_EVERY_S

    def __call__(self) -> bool:
        full = self._connections() > self._limit
        if full and time.monotonic() - self._told_at >= _TELL_EVERY_S:
            self._told_at = time.monotonic()
            log.warning("too_many_connections", limit=self._limit)
        return full


async def serve(
    handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
    limits: ServerLimits,
    *,
    sock: socket.socket,
    stop: asyncio.Event,
    listening: Callable[[], None] = lambda: None,
    linger_s: Callable[[], float] = lambda: 0.0,
) -> None:
    """Answer requests on `sock` until `stop` is set; then refuse new ones and let the open ones finish in time.

    `listening` is called once connections are accepted. `linger_s`, asked when `stop` is set: how long a connection may then
    be idle before it is closed. A client that sends its next request meanwhile gets an answer, which says that it is the
    connection's last.
    """
    # aiohttp logs tracebacks of its own for broken connections; what matters of them is in our request log.
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
    loop = asyncio.get_running_loop()
    server = _Server(
        handler,
        # A client that leaves cancels its handler, which closes the upstream in whatever phase it is.
        handler_cancellation=True,
        request_factory=_request_factory(loop, limits, lambda: site.leaving),
        access_log=None,
        auto_decompress=False,
        max_line_size=max(8190, limits.max_header_bytes),
        max_field_size=limits.max_header_bytes,
        keepalive_timeout=_IDLE_S,
        lingering_time=2,
    )
    site = Site(
        handler,
        server,
        full=_Fullness(limits.max_connections, lambda: len(site.connections) + len(server.connections)),
        refusal=_FULL,
        max_header_bytes=limits.max_header_bytes,
        # What is said of other origins is added to aiohttp's answers (gateway.cors).
        takes_plain=not limits.cors,
        idle_s=_IDLE_S,
    )
    listener = await loop.create_server(lambda: PlainConnection(site), sock=sock, backlog=_BACKLOG)
    listening()
    left_s = limits.grace_s
    try:
        await stop.wait()
    finally:
        listener.close()
        if stop.is_set() and (idle_s := linger_s()) > 0:
            left_s = await _left(site, server, idle_s, limits.grace_s)
        plain = loop.create_task(site.close(left_s))
        # What was handed over a moment ago is under way only after this.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        server.pre_shutdown()
        await server.shutdown(left_s)
        await plain


async def _left(site: Site, server: _Server, linger_s: float, grace_s: float) -> float:
    """Let clients come to the end of their connections. Gives how much of `grace_s` is left."""
    site.leaving = True
    end = time.monotonic() + grace_s
    idle_since: dict[RequestHandler | PlainConnection, float] = {}
    while (server.connections or site.connections) and (now := time.monotonic()) < end:
        connections: list[RequestHandler | PlainConnection] = [*server.connections, *site.connections]
        for connection in connections:
            if isinstance(connection, PlainConnection):
                busy, close = connection.busy, connection.close
            else:
                busy = connection._request_in_progress or bool(connection._messages)
                close = connection.force_close
            if busy:
                idle_since.pop(connection, None)
            elif now - idle_since.setdefault(connection, now) >= linger_s and not _has_come(connection):
                close()
        await asyncio.sleep(_LOOK_EVERY_S)
    # aiohttp takes 0 for no limit at all.
    return max(0.01, end - time.monotonic())


def _has_come(connection: RequestHandler | PlainConnection) -> bool:
    """Whether something has come that the event loop has not read yet: a request that crossed with our decision to close."""
    sock = connection.transport.get_extra_info("socket") if connection.transport is not None else None
    if sock is None or sock.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _request_factory(
    loop: asyncio.AbstractEventLoop, limits: ServerLimits, leaving: Callable[[], bool]
) -> Callable[..., web.BaseRequest]:
    request_class = requests_of(limits.cors)

    def make(
        message: aiohttp.http_parser.RawRequestMessage,
        payload: aiohttp.StreamReader,
        protocol: RequestHandler,
        writer: aiohttp.abc.AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> web.BaseRequest:
        if not payload.is_eof():
            BodyWatch(loop, payload, limits.body_gap_s)
        if leaving():
            message = message._replace(should_close=True)
        return request_class(
            message, payload, protocol, writer, task, loop, client_max_size=limits.max_json_bytes
        )

    return make


def stop_on_signals(stop: asyncio.Event) -> None:
    """SIGTERM and SIGINT ask for an ordered stop; the second one ends the process at once."""
    loop = asyncio.get_running_loop()

    def on(signum: int) -> None:
        log.info("stopping", signal=signal.Signals(signum).name)
        stop.set()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)

    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, on, signum)
