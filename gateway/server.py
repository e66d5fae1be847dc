"""The process: event loop, sockets, signals, owned background tasks, and an ordered stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
import structlog
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler, RequestPayloadError, _ErrInfo

from gateway.own_response import error_response

log = structlog.get_logger(__name__)

_BACKLOG = 4096


class _Connection(RequestHandler):
    """aiohttp's connection, except that what its parser refuses is answered, in OpenAI's shape, and at once."""

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
    grace_s: float


class _Server(web.Server):
    """aiohttp's low-level server with our connections."""

    def __call__(self) -> RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


async def serve(
    handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
    limits: ServerLimits,
    *,
    sock: socket.socket,
    stop: asyncio.Event,
    listening: Callable[[], None] = lambda: None,
) -> None:
    """Answer requests on `sock` until `stop` is set; then refuse new ones and let the open ones finish in time.

    `listening` is called once connections are accepted.
    """
    # aiohttp logs tracebacks of its own for broken connections; what matters of them is in our request log.
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
    server = _Server(
        handler,
        # A client that leaves cancels its handler, which closes the upstream in whatever phase it is.
        handler_cancellation=True,
        request_factory=_request_factory(asyncio.get_running_loop(), limits.max_json_bytes),
        access_log=None,
        auto_decompress=False,
        max_line_size=max(8190, limits.max_header_bytes),
        max_field_size=limits.max_header_bytes,
        keepalive_timeout=75,
        lingering_time=2,
    )
    runner = web.ServerRunner(server, shutdown_timeout=limits.grace_s)
    await runner.setup()
    site = web.SockSite(runner, sock, backlog=_BACKLOG)
    await site.start()
    listening()
    await stop.wait()
    await runner.cleanup()


def _request_factory(loop: asyncio.AbstractEventLoop, max_json_bytes: int) -> Callable[..., web.BaseRequest]:
    def make(
        message: aiohttp.http_parser.RawRequestMessage,
        payload: aiohttp.StreamReader,
        protocol: RequestHandler,
        writer: aiohttp.abc.AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> web.BaseRequest:
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=max_json_bytes)

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
