"""WebSocket upgrades (`/v1/realtime`): after the handshake, raw bytes both ways until one side closes.

Frames are not parsed, so extensions, fragmentation, pings and close codes stay what the two ends made them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

import aiohttp
from aiohttp import web
from aiohttp.http_writer import StreamWriter
from aiohttp.streams import StreamReader

from engines.aiohttp_client import AiohttpAnswer
from engines.engine import EngineRequest
from engines.errors import RequestError
from engines.headers import named_by_connection
from engines.openai_http import OpenAIHTTP
from gateway.endpoints.handler import Handler
from gateway.keys import Authenticator, outgoing_headers
from gateway.passthrough import refuse_elsewhere
from gateway.relay import relay
from router.asked import Admitted
from router.finished import Journey

Again = Callable[[web.BaseRequest, str, Admitted], Awaitable[object]]
"""Lets a request in once more, by what its key may do by now: gateway.admission.Admission.again."""

_BUFFER_BYTES = 64 * 1024
_LOOK_EVERY_S = 1.0
"""How often it is looked whether the key of an open WebSocket may still what it was let in for."""


def wants_upgrade(request: web.BaseRequest) -> bool:
    """Whether the client asks for a WebSocket: of *us*, so `Connection` must name the upgrade."""
    headers = request.headers
    if headers.get("Upgrade", "").lower() != "websocket":
        return False
    return "upgrade" in named_by_connection(headers.getall("Connection", ()))


def _of_own_account(journey: Journey) -> str:
    arrival = journey.admitted
    return arrival.tenant if arrival.reach.own_account else ""


class _Raw:
    """Stands where aiohttp expects a frame parser, and hands the bytes on unparsed."""

    def __init__(self, reader: StreamReader) -> None:
        self._reader = reader

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._reader.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        self._reader.feed_eof()

    def set_exception(self, exc: BaseException, exc_cause: BaseException | None = None) -> None:
        self._reader.feed_eof()


async def tunnel(
    request: web.BaseRequest,
    engine: OpenAIHTTP,
    keys: Authenticator,
    again: Again,
    target: str,
    journey: Journey,
) -> web.StreamResponse:
    """Pass the handshake on; if the upstream agrees, pass the bytes on, while its key may. A refusal is relayed like any
    answer."""
    refuse_elsewhere(journey.admitted, engine)
    headers = outgoing_headers(request.headers, keys)
    headers["Connection"] = "Upgrade"
    headers["Upgrade"] = "websocket"
    journey.asked_at = time.perf_counter()
    exchange = engine.stream(EngineRequest("GET", target, headers, b"", tenant=_of_own_account(journey)))
    async with exchange as reply:
        journey.waited_s = time.perf_counter() - journey.asked_at
        if reply.status != 101:
            return await relay(request, reply, journey)
        response = web.StreamResponse(status=101, reason=reply.reason, headers=reply.headers)
        response.headers["Connection"] = "Upgrade"
        response.headers["Upgrade"] = "websocket"
        journey.engine = reply.engine
        journey.answered(101)
        # An upgrade is asked for by aiohttp's client.
        assert isinstance(exchange.answer, AiohttpAnswer)
        connection = exchange.answer.response.connection
        if connection is None or connection.protocol is None or request.transport is None:
            raise ConnectionResetError("a side left during the handshake")
        allowed = partial(again, request, target, journey.admitted)
        await _splice(request, response, connection, allowed if journey.admitted.key_id is not None else None)
        request.protocol.force_close()
        return response


async def _splice(
    request: web.BaseRequest,
    response: web.StreamResponse,
    upstream: aiohttp.connector.Connection,
    allowed: Callable[[], Awaitable[object]] | None,
) -> None:
    loop = asyncio.get_running_loop()
    client, server = request.protocol, upstream.protocol
    assert server is not None
    server.read_timeout = None
    from_client = StreamReader(client, _BUFFER_BYTES, loop=loop)
    from_server = StreamReader(server, _BUFFER_BYTES, loop=loop)
    to_client = await response.prepare(request)
    assert to_client is not None
    to_server = StreamWriter(server, loop)
    client.set_parser(_Raw(from_client))  # type: ignore[arg-type]
    server.set_parser(_Raw(from_server), from_server)
    async with asyncio.TaskGroup() as tasks:
        watching = (
            tasks.create_task(_watch(allowed, client, server), name="websocket's key") if allowed else None
        )
        async with asyncio.TaskGroup() as both:
            both.create_task(_pump(from_client, to_server), name="websocket client->upstream")
            both.create_task(_pump(from_server, to_client), name="websocket upstream->client")
        if watching is not None:
            watching.cancel()


async def _watch(allowed: Callable[[], Awaitable[object]], *ends: asyncio.BaseProtocol) -> None:
    """Close both ends once the key may no longer what it was let in for."""
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        try:
            await allowed()
        except RequestError as refusal:
            if refusal.status < 500:
                break
    for end in ends:
        if (transport := getattr(end, "transport", None)) is not None:
            transport.abort()


async def _pump(source: StreamReader, sink: aiohttp.abc.AbstractStreamWriter) -> None:
    try:
        async for data in source.iter_any():
            await sink.write(data)
    except (ConnectionError, aiohttp.ClientError):
        pass
    # One end closed: closing the other ends its pump too.
    transport = getattr(sink, "transport", None)
    if transport is not None:
        transport.close()


def with_upgrades(passthrough: Handler, upstream: OpenAIHTTP, keys: Authenticator, again: Again) -> Handler:
    """`passthrough`, but for requests that ask for a WebSocket: those get a tunnel to `upstream`."""

    async def handle(request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        if wants_upgrade(request):
            return await tunnel(request, upstream, keys, again, target, journey)
        return await passthrough(request, target, journey)

    return handle
