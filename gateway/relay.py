"""From an engine's reply to the client's connection, chunk by chunk as it arrives."""

from __future__ import annotations

import time

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from engines.engine import EngineReply
from engines.errors import EngineError, StreamBroken
from engines.sse import Tail
from gateway.answer import Kept
from gateway.errors import error_event
from gateway.journey import Journey, Outcome
from gateway.own_response import SERVER

_WHOLE_BYTES = 64 * 1024
"""A body of known length up to this is read whole and leaves in one write together with its head."""


class ClientGone(ConnectionError):
    """The client's connection broke while we were writing to it."""


async def relay(
    request: web.BaseRequest,
    reply: EngineReply,
    journey: Journey,
    *,
    kept: Kept | None = None,
    ends_with_terminal: bool = False,
) -> web.StreamResponse:
    """Send `reply` on; feed what is sent to `kept`.

    Raises EngineError when it breaks before its head is out. Later the client gets an error event (in a stream) and a closed
    connection, never a quiet success. `ends_with_terminal`: streams of this endpoint that begin must end with a terminal
    event; one that does not is broken however neatly its transfer ended.
    """
    journey.engine = reply.engine
    journey.status = reply.status
    headers = reply.headers
    headers.setdefault("Server", SERVER)
    length = headers.get("Content-Length")
    if request.method == "HEAD" or reply.status in (204, 304):
        async for _ in reply.chunks:
            pass
        return _done(journey, web.Response(status=reply.status, reason=reply.reason, headers=headers))
    if length is not None and len(length) < 6 and int(length) <= _WHOLE_BYTES:
        body = b"".join([chunk async for chunk in reply.chunks])
        if kept is not None:
            kept.feed(body)
        return _done(
            journey, web.Response(status=reply.status, reason=reply.reason, headers=headers, body=body)
        )
    response = web.StreamResponse(status=reply.status, reason=reply.reason, headers=headers)
    return await _stream(request, reply, journey, response, kept, ends_with_terminal)


async def _stream(
    request: web.BaseRequest,
    reply: EngineReply,
    journey: Journey,
    response: web.StreamResponse,
    kept: Kept | None,
    ends_with_terminal: bool,
) -> web.StreamResponse:
    # Without a length or chunks of its own, a stream cut short looks whole: only its last event tells.
    tells = ends_with_terminal or not reply.self_delimiting
    readable = is_event_stream(response) and "Content-Encoding" not in reply.headers
    tail = Tail() if tells and readable and reply.status < 400 else None
    try:
        writer = await start(request, response)
        async for chunk in reply.chunks:
            if journey.first_chunk is None:
                journey.first_chunk = time.perf_counter()
            if tail is not None:
                tail.feed(chunk)
            if kept is not None:
                kept.feed(chunk)
            await send(writer, chunk)
        if tail is not None and tail.began and not tail.finished():
            raise StreamBroken("The upstream's stream ended without its terminal event.", engine=reply.engine)
    except EngineError as error:
        await break_off(request, response, error, journey)
        return response
    return _done(journey, response)


async def start(request: web.BaseRequest, response: web.StreamResponse) -> AbstractStreamWriter:
    """Send the head. Raises ClientGone."""
    try:
        writer = await response.prepare(request)
    except ConnectionError as error:
        raise ClientGone from error
    assert writer is not None
    return writer


async def send(writer: AbstractStreamWriter, chunk: bytes) -> None:
    """Send one chunk; awaits while the client reads slower than the engine talks. Raises ClientGone."""
    try:
        await writer.write(chunk)
    except ConnectionError as error:
        raise ClientGone from error


async def break_off(
    request: web.BaseRequest, response: web.StreamResponse, error: EngineError, journey: Journey
) -> None:
    """End a response whose head is out so that no client can take it for complete."""
    journey.outcome = Outcome.FAILED
    journey.error = error.message
    transport = request.transport
    if is_event_stream(response) and response.content_length is None:
        try:
            await response.write(error_event(error.message, error.code))
        except ConnectionError:
            return
    if transport is not None:
        transport.close()


def is_event_stream(response: web.StreamResponse) -> bool:
    """Whether the answer is a stream of server-sent events."""
    return response.content_type == "text/event-stream"


def _done(journey: Journey, response: web.StreamResponse) -> web.StreamResponse:
    journey.outcome = Outcome.ANSWERED if journey.status < 400 else Outcome.UPSTREAM_ERROR
    return response
