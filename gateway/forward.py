"""Sends an engine's reply on, chunk by chunk as it arrives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping

from engines.answers.reader import Reader
from engines.answers.tail import Tail
from engines.attempts import no_terminal_event
from engines.engine import EngineReply
from engines.errors import EngineError
from engines.exchanges import Take
from gateway.booking import COST, Meter, shown
from gateway.errors import ENDED_IN_ERROR
from gateway.journey import Journey
from gateway.limits.usage_chunk import UsageStripper
from gateway.send import SERVER, ClientGone, Send
from router.finished import Outcome

_WHOLE_BYTES = 64 * 1024
"""A body of known length up to this is read whole and leaves in one write together with its head."""


class ChunkBuffer:
    """Keeps the chunks of an answer, up to a limit; one that is longer is read as it passes, for what it used."""

    __slots__ = ("_headers", "_limit_bytes", "chunks", "passed", "size_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._headers: Mapping[str, str] = {}
        self.size_bytes = 0
        """How much was sent, kept or not."""
        self.chunks: list[bytes] = []
        self.passed: Reader | None = None
        """Read an answer that is over the limit."""

    @property
    def content_type(self) -> str:
        """Of the answer; empty before it has begun."""
        return self._headers.get("Content-Type", "")

    @property
    def encoded(self) -> bool:
        """Whether it has a content encoding."""
        return "Content-Encoding" in self._headers

    def begin(self, headers: Mapping[str, str]) -> None:
        """Take note of the headers of the answer whose chunks follow."""
        self._headers = headers

    def feed(self, chunk: bytes) -> None:
        """Keep a chunk."""
        self.size_bytes += len(chunk)
        if self.size_bytes <= self._limit_bytes:
            self.chunks.append(chunk)
            return
        if self.passed is None:
            encoding = self._headers.get("Content-Encoding", "")
            self.passed = Reader(self._headers.get("Content-Type", ""), encoding)
            for kept in self.chunks:
                self.passed.feed(kept)
            self.chunks.clear()
        self.passed.feed(chunk)


async def forward(
    reply: EngineReply,
    chunks: AsyncIterator[bytes],
    send: Send,
    journey: Journey,
    *,
    kept: ChunkBuffer | None = None,
    meter: Meter | None = None,
    tail: Tail | None = None,
    must_end: bool = False,
    bodiless: bool = False,
    strip: UsageStripper | None = None,
) -> EngineError | None:
    """Send `reply` on with `chunks` as its body; feed what is sent to `kept`, `meter` and `tail`.

    Notes in the journey how it ended, and with a `tail` whether a reader that left had been sent all of the stream. Returns
    the error it broke off with after its head was out: the reader was told then, by an error event or a closed connection.
    Raises EngineError for one that breaks before, and ClientGone. `must_end`: a stream without a terminal event is broken,
    however neatly its transfer ended. `strip`: what the reader is not sent of a stream's chunks; `kept` has all of them.
    """
    tail_due = tail if must_end else None
    headers = reply.headers
    if kept is not None:
        kept.begin(headers)
    headers.setdefault("Server", SERVER)
    if must_end and reply.streams_events:
        # nginx and its kin would hold events back until a buffer is full.
        headers.setdefault("X-Accel-Buffering", "no")
    length = headers.get("Content-Length")
    if bodiless or reply.status in (204, 304):
        async for _ in reply.chunks:
            pass
        send.whole(reply.status, headers, None, reply.reason)
        _note(journey, reply, tail)
        return None
    gathered = False
    small = length is not None and len(length) < 6 and int(length) <= _WHOLE_BYTES
    streams = headers.get("Content-Type", "").lower().startswith("text/event-stream")
    if (
        not (small or streams)
        and length is None
        and meter is not None
        and meter.whole
        and reply.self_delimiting
        and headers.get("Content-Type", "").lower().startswith("application/json")
    ):
        # Its cost goes into its head. What is no JSON may be played while it comes: speech.
        gathered = True
        small, chunks = await _gathered(chunks)
    if small:
        body = b"".join([chunk async for chunk in (reply.chunks if length is not None else chunks)])
        if kept is not None:
            kept.feed(body)
        if tail_due is not None:
            tail_due.feed(body)
            _check(tail_due, reply)
        if meter is not None:
            meter.feed(body)
            if meter.whole:
                headers[COST] = shown(meter.bill()[2])
        send.whole(reply.status, headers, body, reply.reason)
        _note(journey, reply, tail)
        return None
    # Not through `Send`, whose others have to see each chunk.
    push: Take | None = getattr(send, "push", None)
    flow = reply.flow if push is not None and length is None and not gathered else None

    def take(chunk: bytes) -> bool:
        """The same as in the loop, without a wait."""
        sent = chunk if strip is None else strip.at_once(chunk)
        if push is None or sent is None or not (push(sent) if sent else True):
            return False
        if kept is not None:
            kept.feed(chunk)
        if meter is not None:
            meter.feed(chunk)
        if tail is not None:
            tail.feed(chunk)
        return True

    try:
        write = await send.begin(reply.status, headers, reply.reason)
        async for chunk in chunks:
            if journey.first_chunk_at is None:
                journey.first_chunk_at = time.perf_counter()
            if kept is not None:
                kept.feed(chunk)
            if meter is not None:
                meter.feed(chunk)
            if strip is None:
                await write(chunk)
            elif stripped := strip(chunk):
                await write(stripped)
            if tail is not None:
                # Only now: what could not be sent has told nobody that the stream is over.
                tail.feed(chunk)
            if flow is not None:
                await flow(take)
        if strip is not None and (rest := strip.rest()):
            await write(rest)
        if tail_due is not None:
            _check(tail_due, reply)
    except EngineError as error:
        if length is not None or tail is None or not tail.done():
            if tail is not None:
                error.event = tail.error_event(error.message, error.code)
            await send.break_off(error)
            journey.outcome, journey.error = Outcome.FAILED, error.message
            return error
    except (ConnectionError, asyncio.CancelledError) as error:
        if tail is not None and tail.finished():
            journey.sent_all = True
            reply.drained_at = reply.drained_at or time.monotonic()
        if isinstance(error, ConnectionError):
            raise ClientGone from error
        raise
    await send.end()
    _note(journey, reply, tail)
    return None


def _note(journey: Journey, reply: EngineReply, tail: Tail | None) -> None:
    """Note how an answer ended of which all was sent."""
    if tail is not None and tail.failed():
        journey.outcome, journey.error = Outcome.FAILED, ENDED_IN_ERROR
    else:
        journey.outcome = Outcome.ANSWERED if reply.status < 400 else Outcome.UPSTREAM_ERROR


async def _gathered(chunks: AsyncIterator[bytes]) -> tuple[bool, AsyncIterator[bytes]]:
    """Whether all of it came within 64 KiB; and the chunks anew."""
    begun, size = [], 0
    async for chunk in chunks:
        begun.append(chunk)
        size += len(chunk)
        if size > _WHOLE_BYTES:
            return False, _after(begun, chunks)
    return True, _after(begun, None)


async def _after(begun: list[bytes], chunks: AsyncIterator[bytes] | None) -> AsyncIterator[bytes]:
    for chunk in begun:
        yield chunk
    if chunks is not None:
        async for chunk in chunks:
            yield chunk


def _check(tail: Tail, reply: EngineReply) -> None:
    """Raise StreamBroken for a stream that ended too early."""
    if tail.cut(delimited=reply.self_delimiting):
        raise no_terminal_event(reply.engine)
