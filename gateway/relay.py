"""Answers the client over HTTP: the `send` of a request that came in through aiohttp's server."""

from __future__ import annotations

from aiohttp import web
from multidict import CIMultiDict

from engines.engine import EngineReply
from engines.errors import EngineError
from engines.sse import Tail
from gateway.errors import error_event
from gateway.forward import ChunkBuffer, forward
from gateway.journey import Journey
from gateway.send import ClientGone, Write
from router.finished import Outcome


class Relay:
    """See gateway.send.Send. `response` is what aiohttp's handler returns."""

    __slots__ = ("_request", "_response")

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._response: web.StreamResponse | None = None

    @property
    def response(self) -> web.StreamResponse:
        """The answer that was sent, or begun."""
        assert self._response is not None
        return self._response

    @property
    def gone(self) -> bool:
        """Whether the client's connection is closed."""
        return self._request.transport is None

    def whole(
        self, status: int, headers: CIMultiDict[str], body: bytes | None, reason: str | None = None
    ) -> None:
        """See Send. aiohttp writes it, head and body at once, when the handler returns."""
        self._response = web.Response(status=status, reason=reason, headers=headers, body=body)

    async def begin(self, status: int, headers: CIMultiDict[str], reason: str | None = None) -> Write:
        """See Send."""
        response = self._response = web.StreamResponse(status=status, reason=reason, headers=headers)
        try:
            writer = await response.prepare(self._request)
        except ConnectionError as error:
            raise ClientGone from error
        assert writer is not None
        return writer.write

    async def end(self) -> None:
        """See Send. aiohttp writes the end of the body when the handler returns."""

    async def break_off(self, error: EngineError) -> None:
        """See Send."""
        response = self.response
        # Before the error event, which may find the connection closed: then there is no transport any more.
        transport = self._request.transport
        if response.content_type == "text/event-stream" and response.content_length is None:
            try:
                await response.write(error_event(error.message, error.code))
            except ConnectionError:
                return
        if transport is not None:
            transport.close()


async def relay(
    request: web.BaseRequest,
    reply: EngineReply,
    journey: Journey,
    *,
    kept: ChunkBuffer | None = None,
    ends_with_terminal: bool = False,
) -> web.StreamResponse:
    """Send the reply to a request that never reached the pipeline. Raises as gateway.forward.forward does.

    `ends_with_terminal`: streams of this endpoint that begin must end with a terminal event.
    """
    journey.engine, journey.status = reply.engine, reply.status
    # Without a length or chunks of its own, a stream cut short looks whole: only its last event tells.
    tells = ends_with_terminal or not reply.self_delimiting
    tail = Tail() if tells and reply.status < 400 and reply.streams_events else None
    send = Relay(request)
    broken = await forward(
        reply, reply.chunks, send, journey, kept=kept, tail=tail, bodiless=request.method == "HEAD"
    )
    if broken is not None:
        journey.outcome, journey.error = Outcome.FAILED, broken.message
    else:
        journey.outcome = Outcome.ANSWERED if reply.status < 400 else Outcome.UPSTREAM_ERROR
    return send.response
