"""Bytes in, bytes out, for everything the pipeline does not touch.

Nothing is parsed. Small bodies are read and sent in one go; large or chunked uploads are passed on as they arrive, so that
memory stays flat whatever their size.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.web_protocol import RequestPayloadError

from engines.chat import tokens_in_bytes
from engines.codecs.codec import Codec
from engines.engine import Engine, EngineReply, EngineRequest
from engines.errors import EngineError, RequestError
from engines.telling_usage import asking
from gateway.access.families import OWN_APIS
from gateway.booking import Meter, named_model
from gateway.encodings import accept_only_readable, too_large
from gateway.forward import ChunkBuffer
from gateway.guardrails.contract import told
from gateway.keys import Authenticator, outgoing_headers
from gateway.relay import relay_for, relay_to
from gateway.send import Send
from gateway.wire import BODY_READ, arriving, read_body
from router.asked import Arrival
from router.finished import Journey

if TYPE_CHECKING:
    from gateway.guardrails.passed_on import GuardedPassing
    from gateway.limits.limiter import Limiter
    from gateway.limits.usage_chunk import UsageStripper

_SMALL_BYTES = 256 * 1024


class Passthrough:
    """Sends a request to the default upstream and its answer back."""

    def __init__(
        self,
        engine: Engine,
        keys: Authenticator,
        *,
        max_body_bytes: int,
        booked: bool = False,
        limiter: Limiter | None = None,
        guarded: GuardedPassing | None = None,
    ) -> None:
        """`booked`: what answers used is read, so they come in encodings that can be. `guarded` holds answers back that
        guardrails judge."""
        self._guarded = guarded
        self._booked = booked
        self._limiter = limiter
        self._engine = engine
        self._keys = keys
        self._max_body_bytes = max_body_bytes

    async def __call__(
        self,
        request: web.BaseRequest,
        target: str,
        journey: Journey,
        *,
        choices: int = 0,
        codec: Codec | None = None,
    ) -> web.StreamResponse:
        """`target` is the raw request target below the prefix. Raises EngineError before anything was sent. See
        gateway.relay.relay for the options."""
        headers = outgoing_headers(request.headers, self._keys)
        _refuse_own(journey.admitted)
        body = await self._body(request)
        outgoing = EngineRequest(
            request.method, target, headers, body, model=journey.deployment, below=journey.below
        )
        try:
            return await self.forward(request, outgoing, journey, choices=choices, codec=codec)
        except EngineError as error:
            # An upload that fails on the client's side looks from the engine's side like a broken connection.
            cause = error.__cause__
            while cause is not None:
                if isinstance(cause, RequestError | RequestPayloadError):
                    raise cause from None
                cause = cause.__cause__
            raise

    async def forward(
        self,
        request: web.BaseRequest,
        outgoing: EngineRequest,
        journey: Journey,
        *,
        kept: ChunkBuffer | None = None,
        cache_status: str | None = None,
        choices: int = 0,
        codec: Codec | None = None,
    ) -> web.StreamResponse:
        """The same for a request that was read already. See gateway.relay.relay for the options."""
        relay = relay_for(request)
        send: Send = relay
        held = await self._guarded.hold(outgoing, journey, relay) if self._guarded is not None else None
        if held is not None:
            accept_only_readable(outgoing.headers)
            send = held.answer
        await self.forward_to(
            send, outgoing, journey, kept=kept, cache_status=cache_status, choices=choices, codec=codec
        )
        if held is not None:
            await held.release(journey)
        return relay.response

    async def forward_to(
        self,
        send: Send,
        outgoing: EngineRequest,
        journey: Journey,
        *,
        kept: ChunkBuffer | None = None,
        cache_status: str | None = None,
        choices: int = 0,
        codec: Codec | None = None,
    ) -> EngineReply:
        """The same through any `send`. Gives the reply that was sent on."""
        arrival = journey.admitted
        refuse_elsewhere(arrival, self._engine)
        if arrival.reach.own_account:
            outgoing = replace(outgoing, tenant=arrival.tenant)
        if self._booked and outgoing.method == "POST":
            accept_only_readable(outgoing.headers)
        strip = None
        if self._limiter is not None and arrival.key_id is not None and outgoing.method == "POST":
            outgoing, strip = await self._limited(self._limiter, outgoing, journey)
        journey.asked_at = time.perf_counter()
        async with asking(self._engine, outgoing) as reply:
            journey.waited_s += time.perf_counter() - journey.asked_at
            if cache_status is not None:
                reply.headers.add("Cache-Status", cache_status)
            reply.headers["x-understudy-decision-id"] = journey.admitted.id
            told(reply.headers, journey.admitted)
            reply.headers["x-understudy-overhead-ms"] = f"{journey.overhead_ms():.2f}"
            if not reply.self_delimiting:
                # Cut short, it would look whole.
                kept = None
            bodiless = outgoing.method == "HEAD"
            meter = self._meter(outgoing, reply, journey) if self._booked else None
            await relay_to(
                send,
                reply,
                journey,
                kept=kept,
                meter=meter,
                choices=choices,
                codec=codec,
                bodiless=bodiless,
                strip=strip,
            )
            return reply

    async def _limited(
        self, limiter: Limiter, outgoing: EngineRequest, journey: Journey
    ) -> tuple[EngineRequest, UsageStripper | None]:
        """What it may cost is set aside. Raises RequestError."""
        from gateway.limits.passing import reserved

        path = outgoing.target.partition("?")[0]
        encoding = outgoing.headers.get("Content-Encoding", "")
        body, strip, without_usage = await reserved(
            limiter,
            journey,
            outgoing.body,
            [self._engine.info],
            path=path,
            encoding=encoding,
            content_type=outgoing.headers.get("Content-Type", ""),
        )
        if body is not outgoing.body:
            headers = outgoing.headers.copy()
            headers.popall("Content-Length", None)
            headers.popall("Content-Encoding", None)
            outgoing = replace(outgoing, body=body, headers=headers, without_usage=without_usage)
        if strip is not None:
            outgoing.headers["Accept-Encoding"] = "identity"
        return outgoing, strip

    def _meter(self, outgoing: EngineRequest, reply: EngineReply, journey: Journey) -> Meter:
        body = outgoing.body if isinstance(outgoing.body, bytes) else b""
        return Meter(
            self._engine.info,
            reply,
            method=outgoing.method,
            target=outgoing.target,
            model=journey.model or outgoing.model or named_model(body),
            prompt_tokens=lambda: tokens_in_bytes(len(body)),
        )

    async def _body(self, request: web.BaseRequest) -> bytes | AsyncIterator[bytes]:
        read: bytes | None = request.get(BODY_READ)
        if read is not None:
            return read
        length = request.content_length
        if length is not None and length > self._max_body_bytes:
            raise too_large(length, self._max_body_bytes)
        if not request.body_exists:
            return b""
        if length is not None and length <= min(_SMALL_BYTES, request.client_max_size):
            return await read_body(request, self._max_body_bytes)
        return self._as_it_arrives(request)

    async def _as_it_arrives(self, request: web.BaseRequest) -> AsyncIterator[bytes]:
        received = 0
        async for chunk in arriving(request):
            received += len(chunk)
            if received > self._max_body_bytes:
                raise too_large(received, self._max_body_bytes)
            yield chunk


def _refuse_own(arrival: Arrival) -> None:
    """The upstream's pages of the same name are not this key's. Raises RequestError."""
    if arrival.key_id is not None and arrival.api in OWN_APIS:
        raise RequestError("This endpoint is not served here.", status=404, code="unknown_url")


def refuse_elsewhere(arrival: Arrival, engine: Engine) -> None:
    """Raises RequestError (403) where this request must not be answered where `engine` is."""
    if not arrival.reach.allows_region(engine.info.region):
        raise RequestError(
            f"This tenant's requests are answered in the region '{arrival.reach.region}' only, and '{engine.info.name}' is"
            " not there.",
            status=403,
            code="region_not_allowed",
        )
