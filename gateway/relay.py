"""Answers the client over HTTP: the `send` of a request that came in through aiohttp's server."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from multidict import CIMultiDict

from engines.codecs.codec import Codec
from engines.codecs.table import codec_named
from engines.engine import EngineReply
from engines.errors import EngineError
from gateway.booking import Meter
from gateway.cors import tell_browsers
from gateway.errors import last_event
from gateway.forward import Answer, ChunkBuffer, forward
from gateway.http.plain import PlainRelay, PlainRequest
from gateway.limits.headers import TICKET
from gateway.limits.usage_chunk import UsageStripper
from gateway.send import ClientGone, Send, Write
from router.finished import Journey


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
        if (ticket := self._request.get(TICKET)) is not None:
            headers.update(ticket.headers())
        tell_browsers(self._request, headers)
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
        if (event := last_event(response.headers, error)) is not None:
            try:
                await response.write(event)
            except ConnectionError:
                return
        if transport is not None:
            transport.close()


def relay_for(request: web.BaseRequest) -> Relay | PlainRelay:
    """What answers this request."""
    return PlainRelay(request) if isinstance(request, PlainRequest) else Relay(request)


async def relay(
    request: web.BaseRequest,
    reply: EngineReply,
    journey: Journey,
    *,
    kept: ChunkBuffer | None = None,
    meter: Meter | None = None,
    choices: int = 0,
) -> web.StreamResponse:
    """Send the reply to a request that never reached the pipeline. Raises as gateway.forward.forward does.

    `choices`: how many answers a stream of this endpoint holds, which must end with a terminal event; 0 where it need not.
    """
    send = relay_for(request)
    bodiless = request.method == "HEAD"
    await relay_to(send, reply, journey, kept=kept, meter=meter, choices=choices, bodiless=bodiless)
    return send.response


async def relay_to(
    send: Send,
    reply: EngineReply,
    journey: Journey,
    *,
    kept: ChunkBuffer | None = None,
    meter: Meter | None = None,
    choices: int = 0,
    codec: Codec | None = None,
    bodiless: bool = False,
    strip: UsageStripper | None = None,
) -> None:
    """The same through any `send`. `codec`: None stands for that of the request's API."""
    codec = codec or codec_named(journey.arrival.api)
    journey.engine, journey.status = reply.engine, reply.status
    watchers: list[Callable[[bytes], object]] = []
    if kept is not None:
        kept.begin(reply.headers)
        watchers.append(kept.feed)
    if meter is not None:
        watchers.append(meter.feed)
    answer = Answer(
        reply,
        journey,
        watchers,
        meter,
        codec.tail(reply.headers, choices or 1) if reply.status < 400 else None,
        # Without a length or chunks of its own, a stream cut short looks whole: only its last event tells.
        must_end=choices > 0 or not reply.self_delimiting,
        bodiless=bodiless,
        strip=strip if reply.streams_events else None,
    )
    try:
        await forward(answer, send)
    finally:
        if meter is not None:
            # Whatever passed is paid for, also where its reader left.
            journey.usage, journey.price, journey.cost_usd = meter.bill()
            journey.billed = True
            journey.model = journey.model or meter.model
