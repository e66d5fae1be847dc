"""Sends an engine's reply on, chunk by chunk as it arrives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass

from engines.answers.reader import Reader
from engines.answers.tail import Tail
from engines.attempts import no_terminal_event
from engines.engine import EngineReply
from engines.errors import EngineError
from engines.exchanges import Take
from gateway.booking import COST, Meter, shown
from gateway.errors import ENDED_IN_ERROR
from gateway.limits.usage_chunk import UsageStripper
from gateway.send import SERVER, ClientGone, Send
from router.finished import Journey, Outcome

_WHOLE_BYTES = 64 * 1024
"""A body of known length up to this is read whole and leaves in one write together with its head."""
_BODILESS = frozenset({204, 304})


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


@dataclass(slots=True, eq=False)
class Answer:
    """An answer to be sent: an engine's reply, and what watches it on its way."""

    reply: EngineReply
    journey: Journey
    watchers: Sequence[Callable[[bytes], object]] = ()
    """Take each chunk as it came, once it is on its way or about to be."""
    meter: Meter | None = None
    """Tells in its head what a whole answer costs; it is among the watchers."""
    tail: Tail | None = None
    """Tells how a stream ended. Takes each chunk once it was sent: what was not has told nobody that all is over."""
    must_end: bool = False
    """A stream without a terminal event is broken, however neatly its transfer ended."""
    bodiless: bool = False
    strip: UsageStripper | None = None
    """Takes out of a stream what its reader is not sent."""

    def check(self) -> None:
        """Raise StreamBroken for a stream that ended too early."""
        tail, reply = self.tail, self.reply
        if self.must_end and tail is not None and tail.cut(delimited=reply.self_delimiting):
            raise no_terminal_event(reply.engine)

    def broke(self, error: EngineError) -> bool:
        """Note that the body broke off with this error; false where that was after its end."""
        tail, journey = self.tail, self.journey
        if tail is not None:
            if tail.done() and "Content-Length" not in self.reply.headers:
                return False
            error.event = tail.error_event(error.message, error.code)
        journey.outcome, journey.error = Outcome.FAILED, error.message
        return True

    def left(self) -> None:
        """Note whether a reader that left had been sent all of a stream."""
        if self.tail is not None and self.tail.finished():
            self.journey.sent_all = True
            self.reply.drained_at = self.reply.drained_at or time.monotonic()

    def ended(self) -> None:
        """Note that all of it was sent."""
        journey = self.journey
        if self.tail is not None and self.tail.failed():
            journey.outcome, journey.error = Outcome.FAILED, ENDED_IN_ERROR
        else:
            journey.outcome = Outcome.ANSWERED if self.reply.status < 400 else Outcome.UPSTREAM_ERROR


async def forward(answer: Answer, send: Send) -> EngineError | None:
    """Send an answer, and note in its journey how it ended.

    Returns the error it broke off with after its head was out: the reader was told then, by an error event or a closed
    connection. Raises EngineError for one that breaks before, and ClientGone.
    """
    reply = answer.reply
    headers = reply.headers
    length = headers.get("Content-Length")
    headers.setdefault("Server", SERVER)
    if answer.must_end and reply.streams_events:
        # nginx and its kin would hold events back until a buffer is full.
        headers.setdefault("X-Accel-Buffering", "no")
    if answer.bodiless or reply.status in _BODILESS:
        async for _ in reply.chunks:
            pass
        send.whole(reply.status, headers, None, reply.reason)
        answer.ended()
        return None
    if length is not None:
        small = len(length) < 6 and int(length) <= _WHOLE_BYTES
    else:
        small = _may_be_gathered(answer) and await _gathered(reply)
    if not small:
        return await _streamed(answer, send)
    body = b"".join([chunk async for chunk in reply.chunks])
    for watch in answer.watchers:
        watch(body)
    if answer.tail is not None and answer.must_end:
        answer.tail.feed(body)
        answer.check()
    if answer.meter is not None and answer.meter.whole:
        headers[COST] = shown(answer.meter.bill()[2])
    send.whole(reply.status, headers, body, reply.reason)
    answer.ended()
    return None


async def _streamed(answer: Answer, send: Send) -> EngineError | None:
    """Send an answer as it comes."""
    reply, journey, tail, strip = answer.reply, answer.journey, answer.tail, answer.strip
    watchers = answer.watchers
    # Not through `Send`, whose others have to see each chunk.
    push: Take | None = getattr(send, "push", None)
    flow = reply.flow if push is not None and "Content-Length" not in reply.headers else None

    def take(chunk: bytes) -> bool:
        """The same as in the loop, without a wait."""
        sent = chunk if strip is None else strip.at_once(chunk)
        if push is None or sent is None or (sent and not push(sent)):
            return False
        for watch in watchers:
            watch(chunk)
        if tail is not None:
            tail.feed(chunk)
        return True

    try:
        write = await send.begin(reply.status, reply.headers, reply.reason)
        async for chunk in reply.chunks:
            if journey.first_chunk_at is None:
                journey.first_chunk_at = time.perf_counter()
            for watch in watchers:
                watch(chunk)
            sent = chunk if strip is None else strip(chunk)
            if sent or strip is None:
                await write(sent)
            if tail is not None:
                tail.feed(chunk)
            if flow is not None:
                await flow(take)
        if strip is not None and (rest := strip.rest()):
            await write(rest)
        answer.check()
    except EngineError as error:
        if answer.broke(error):
            await send.break_off(error)
            return error
    except ConnectionError as error:
        answer.left()
        raise ClientGone from error
    except asyncio.CancelledError:
        answer.left()
        raise
    await send.end()
    answer.ended()
    return None


def _may_be_gathered(answer: Answer) -> bool:
    """Whether a body without a length is read whole if it is small, so that its cost goes into its head. What is no JSON may
    be played while it comes: speech."""
    headers, meter = answer.reply.headers, answer.meter
    if meter is None or not meter.whole or not answer.reply.self_delimiting:
        return False
    return headers.get("Content-Type", "").lower().startswith("application/json")


async def _gathered(reply: EngineReply) -> bool:
    """Whether all of it came within 64 KiB; what was read is the beginning of its chunks anew."""
    begun, size, chunks = [], 0, reply.chunks
    async for chunk in chunks:
        begun.append(chunk)
        size += len(chunk)
        if size > _WHOLE_BYTES:
            reply.rest, reply.flow = _after(begun, chunks), None
            return False
    reply.rest = _after(begun, None)
    return True


async def _after(begun: list[bytes], chunks: AsyncIterator[bytes] | None) -> AsyncIterator[bytes]:
    for chunk in begun:
        yield chunk
    if chunks is not None:
        async for chunk in chunks:
            yield chunk
