"""The process: event loop, sockets, signals, owned background tasks, and an ordered stop."""

from __future__ import annotations

import asyncio
import logging
import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, cast

import structlog
from aiohttp import StreamReader, web
from aiohttp.http_exceptions import LineTooLong

from gateway.cors import ORIGINS, tell_browsers
from gateway.errors import error_body
from gateway.http.framing import Framing
from gateway.http.plain import Handle, PlainConnection, Site
from gateway.own_response import error_response
from gateway.wire import BODY_GAP_S

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


class _Connection(web.RequestHandler):
    """aiohttp's connection, for what is not plain (gateway.http.plain).

    What its parser refuses is answered, in OpenAI's shape, and at once.
    """

    def __init__(self, server: web.Server, **settings: Any) -> None:
        super().__init__(server, **settings)
        self.framing = Framing()
        self.task: asyncio.Task[Any] | None = None
        """What answers the request that is under way."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.framing.feed(data)

    def leave(self) -> None:
        """Close it, as nothing is under way. aiohttp's `close` waits for a request."""
        self.force_close()

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
    body_gap_s: float
    """How long a client may pause in the middle of its request body."""
    max_connections: int
    grace_s: float
    cors: tuple[str, ...]
    """Origins whose pages may read answers: gateway.cors."""
    max_header_bytes: int = 32 * 1024
    """Of a single header line."""


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
    handler: Handle,
    limits: ServerLimits,
    *,
    sock: socket.socket,
    unix: socket.socket | None = None,
    stop: asyncio.Event,
    listening: Callable[[], None] = lambda: None,
    linger_s: Callable[[], float] = lambda: 0.0,
) -> None:
    """Answer requests on `sock` and `unix` until `stop` is set; then refuse new ones and let the open ones finish in time.

    `listening` is called once connections are accepted. `linger_s`, asked when `stop` is set: how long a connection may then
    be idle before it is closed. A client that sends its next request meanwhile gets an answer, which says that it is the
    connection's last.
    """
    # aiohttp logs tracebacks of its own for broken connections; what matters of them is in our request log.
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
    loop = asyncio.get_running_loop()
    server = web.Server(
        partial(_answered, handler),
        # A client that leaves cancels its handler, which closes the upstream in whatever phase it is.
        handler_cancellation=True,
        request_factory=_request_factory(loop, limits, lambda: site.leaving),
    )
    connection = partial(
        _Connection,
        server,
        loop=loop,
        access_log=None,
        auto_decompress=False,
        max_line_size=max(8190, limits.max_header_bytes),
        max_field_size=limits.max_header_bytes,
        keepalive_timeout=_IDLE_S,
        lingering_time=2,
    )
    site = Site(
        handler,
        connection,
        full=_Fullness(limits.max_connections, lambda: len(site.connections) + len(server.connections)),
        refusal=_FULL,
        max_header_bytes=limits.max_header_bytes,
        # What is said of other origins is added to aiohttp's answers (gateway.cors).
        takes_plain=not limits.cors,
        idle_s=_IDLE_S,
    )
    made = partial(PlainConnection, site)
    listeners = [await loop.create_server(made, sock=sock, backlog=_BACKLOG)]
    if unix is not None:
        listeners.append(await loop.create_unix_server(made, sock=unix, backlog=_BACKLOG))
    listening()
    try:
        await stop.wait()
    finally:
        for listener in listeners:
            listener.close()
        if stop.is_set():
            await _left(site, server, linger_s(), limits.grace_s)
        await _broken_off(site, server)


async def _answered(handler: Handle, request: web.BaseRequest) -> web.StreamResponse:
    """Let `handler` answer a request of aiohttp's, to the last byte."""
    connection = cast(_Connection, request.protocol)
    connection.task = asyncio.current_task()
    try:
        response = await handler(request)
        if not response.prepared:
            tell_browsers(request, response.headers)
            await _begun(response, request)
        await response.write_eof()
        return response
    finally:
        connection.task = None


async def _begun(response: web.StreamResponse, request: web.BaseRequest) -> None:
    """Prepare an answer. Raises ConnectionError."""
    try:
        await response.prepare(request)
    except ValueError as error:
        # A header that could begin another one.
        log.error("answer_failed", path=request.raw_path.partition("?")[0], error=error)
        raise ConnectionAbortedError from error


async def _left(site: Site, server: web.Server, linger_s: float, grace_s: float) -> None:
    """Let clients come to the end of their requests within `grace_s`, and of connections that are idle within `linger_s`."""
    site.leaving = True
    end = time.monotonic() + grace_s
    idle_since: dict[_Connection | PlainConnection, float] = {}
    while (connections := _connections(site, server)) and (now := time.monotonic()) < end:
        for connection in connections:
            if connection.task is not None:
                idle_since.pop(connection, None)
            elif isinstance(connection, PlainConnection) and connection.begun:
                connection.hand_over()
            elif now - idle_since.setdefault(connection, now) >= linger_s and not _has_come(connection):
                connection.leave()
        await asyncio.sleep(_LOOK_EVERY_S)


async def _broken_off(site: Site, server: web.Server) -> None:
    """Break off what is still under way, and close all connections."""
    late = [one.task for one in _connections(site, server) if one.task is not None]
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=1.0)
    site.close()
    # aiohttp takes 0 for no limit at all.
    await server.shutdown(0.01)


def _connections(site: Site, server: web.Server) -> list[_Connection | PlainConnection]:
    return [*site.connections, *cast(list[_Connection], server.connections)]


def _has_come(connection: _Connection | PlainConnection) -> bool:
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
    class Request(web.BaseRequest):
        @property
        def keep_alive(self) -> bool:
            """Whether the connection stays after its answer."""
            return super().keep_alive and not leaving()

    def make(
        message: Any, payload: StreamReader, protocol: _Connection, writer: Any, task: asyncio.Task[None]
    ) -> web.BaseRequest:
        protocol.framing.take(payload)
        request = Request(
            message, payload, protocol, writer, task, loop, client_max_size=limits.max_json_bytes
        )
        request[BODY_GAP_S] = limits.body_gap_s
        if limits.cors:
            request[ORIGINS] = frozenset(limits.cors)
        return request

    return make


def stop_on_signals(stop: asyncio.Event) -> None:
    """Have SIGTERM ask for an ordered stop, however often it comes: the supervisor kills who is to end at once."""

    def on() -> None:
        if not stop.is_set():
            log.info("stopping", signal="SIGTERM")
            stop.set()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, on)
