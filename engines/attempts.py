"""The answer of the first engine that gives one, and of those that carry it on where it breaks off.

Until an answer begins, another engine is simply asked (engines.candidates says who). Where several could answer, it begins
with its first data, and what is no answer in spite of its status does not count as one (engines.answers). After that
another engine goes on with the partial answer (engines.continuing). Nothing is parsed between the first data and a break:
until then only the end of the last whole event is looked for, so that what a client has been sent can be continued at all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial

from engines.answers.beginning import Begun, begun, wrong_with
from engines.answers.tail import Tail
from engines.candidates import Candidate, Candidates, Try
from engines.chat import ChatRequest
from engines.continuing import continuable, continuation
from engines.engine import CountsTokens, Engine, EngineReply, EngineRequest, Flow
from engines.error_texts import hold_error
from engines.errors import Declined, EngineError, Kind, StreamBroken, Unavailable, Unsayable
from engines.exchanges import Take
from engines.partial_answer import PartialAnswer, read_partial, spliced, split_at_failure
from engines.seam import NoMatch
from engines.sse import DONE, EventCutter
from engines.too_long import STATUSES as TOO_LONG_STATUSES
from engines.too_long import says_too_long
from engines.trail import Tried

_HELD_BYTES = 256 * 1024
"""Of a stream before its first data that is kept while another engine may be asked."""
_PLAIN_BYTES = 64 * 1024
"""An answer that is no stream is looked at up to this size. Clients that know its length get it in one piece anyway."""
_CARRIED_ON_BYTES = 2**20
"""A stream longer than this is not carried on: its beginning is no longer there."""
_MOST_SEAMS = 2
_OFTEN_ONCE = 500
"""A status that is often over at the next try, where 502 to 504 last."""
_WORDS_BYTES = 4096
"""Of what an engine says that fails, kept for people to read; of our own words as many characters."""
_ENGINES_OWN = frozenset({Kind.REFUSED, Kind.QUOTA})
"""Refusals that another server need not share, whatever this one says of retries."""
_AGAIN_STATUS = frozenset({408, 409})
_ABOUT_THE_REQUEST = frozenset({400, 422})
"""Refusals that every replica of an engine would give, unless they say that the engine is at fault."""


@dataclass(frozen=True, slots=True)
class CarriedOn:
    """An engine that took over a stream which had broken off."""

    engine: Engine
    tokens_before: int
    """Tokens of the answer until then, from its beginning."""


class Attempts:
    """The answer of the first engine that gives one: an async context manager, which ends the generation when it is left.

    Entering it returns the reply; where no engine answers, the first failure as it came: an error answer, or the
    EngineError, which is raised. `chunks` is its stream. `larger` is asked only where a request is too long.

    `carry_on`: a stream that breaks off is carried on by the engines that were not asked yet, and last by the same one,
    which may be back.
    """

    def __init__(
        self,
        tries: Sequence[Try],
        larger: Try | None = None,
        *,
        carry_on: bool = False,
        limit_bytes: int = _CARRIED_ON_BYTES,
    ) -> None:
        self._candidates = Candidates(tries, larger)
        chat = tries[0].request.chat
        self._carry_on = carry_on and chat is not None and continuable(chat)
        self._limit_bytes = limit_bytes
        self._context: AbstractAsyncContextManager[EngineReply] | None = None
        self._reply: EngineReply | None = None
        self._asked = self._candidates.planned
        self._failure: tuple[Candidate, EngineReply | EngineError] | None = None
        self._cutter = EventCutter(limit_bytes)
        self._sent: list[bytes] = []
        self._sent_bytes = 0
        self._broke: EngineError | bytes | None = None
        """How it first broke off."""
        self.index = 0
        """Which of the tries answered; their number for `larger`."""
        self.declined = 0
        """How many had nothing to say before one answered: what follows is no failover."""
        self.paid_usd = 0.0
        """What was paid for answers that were not given (EngineError.paid_usd)."""
        self.trail = self._candidates.trail
        """Who was asked or could not be, and what came of it, in order; last whose answer went out, or broke off."""
        self.carried_on: list[CarriedOn] = []
        """Who took over after it broke off, in order."""
        self.head_at = 0.0
        """When the head of the last answer came that is none of an error (time.perf_counter); 0: none did."""

    @property
    def failures(self) -> list[str]:
        """Names of the engines that failed, or were not to be asked, before one answered."""
        failed = (one.engine for one in self.trail if one.kind not in (None, Kind.TOO_LONG))
        return list(dict.fromkeys(failed))

    @property
    def lost(self) -> Collection[str]:
        """What the answer held that its client's API has no word for (engines.translating)."""
        return (self._reply.lost if self._reply is not None else None) or ()

    @property
    def asked_for(self) -> ChatRequest | None:
        """The request of the last one that was asked; None where that is no chat completion, and where none was asked."""
        asked = self._asked
        return asked.request.chat if asked.tried else None

    async def __aenter__(self) -> EngineReply:
        try:
            while (candidate := self._candidates.next()) is not None:
                if await self._answers(candidate):
                    assert self._reply is not None
                    self.index = candidate.index
                    return self._reply
        except BaseException:
            await self._leave()
            raise
        return self._failed()

    async def __aexit__(self, *_: object) -> None:
        await self._leave()

    def chunks(self, tail: Tail | None = None) -> AsyncIterator[bytes]:
        """The answer's stream, and what follows where it breaks off and somebody carries it on.

        `tail`: must be fed each chunk before the next one is asked for. A stream that is to be carried on needs one.
        Raises the EngineError it broke with, or passes its error event on.
        """
        reply = self._reply
        assert reply is not None
        reply.tail = tail
        whole = "Content-Length" in reply.headers
        if not self._carry_on or tail is None or reply.status != 200 or not reply.streams_events or whole:
            return reply.chunks
        if reply.headers.get("x-should-retry", "").lower() == "false":
            self._candidates.end()
        if reply.flow is not None:
            reply.flow = partial(self._flow, reply, reply.flow)
        first, reply.first = reply.first, None
        return self._in_whole_events(reply, first, reply.rest, tail)

    # ---- before an answer begins

    async def _answers(self, candidate: Candidate) -> bool:
        """Ask one. True where its answer is the one; what else came of it is noted, and its engine was left then."""
        if pause_s := self._candidates.pause_s(candidate):
            await asyncio.sleep(pause_s)
        began = time.monotonic()
        reply = await self._entered(candidate, self._candidates.asked(candidate, continuable=self._carry_on))
        if reply is None:
            return False
        try:
            kind = await self._failure_of(candidate, reply)
        except EngineError as error:
            error.replica = reply.replica
            await self._leave()
            self._note_failure(candidate, error.kind, began, error, reply.status)
            return False
        if kind is None:
            self._note_answer(candidate, reply, began)
            return True
        if reply.status < 400:
            reply.broken = kind
        await self._leave()
        self._note_failure(candidate, kind, began, reply, reply.status)
        return False

    async def _entered(self, candidate: Candidate, request: EngineRequest) -> EngineReply | None:
        """Its answer, begun; None where none did, which is noted."""
        began = time.monotonic()
        context = candidate.engine.stream(request)
        try:
            reply = await context.__aenter__()
        except EngineError as error:
            self._note_failure(candidate, error.kind, began, error)
            return None
        self._asked, self._context, self._reply = candidate, context, reply
        self.head_at = time.perf_counter() if reply.status < 400 else 0.0
        return reply

    async def _failure_of(self, candidate: Candidate, reply: EngineReply) -> Kind | None:
        """How an answer fails; None where it goes out, which is as far as a client's own error goes, too.

        One that fails is held in memory. Raises the EngineError that it ends early with.
        """
        if reply.status >= 400:
            return await self._error_of(candidate, reply)
        if not self._candidates.several:
            if reply.kind is Kind.SERVER:
                await hold_error(reply)
                return reply.kind
            return None
        if reply.status != 200:
            return None
        chat = candidate.request.chat
        if reply.streams_events:
            if chat is not None and not chat.stream:
                return None
            amounts_to = await _hold_stream(reply)
            if amounts_to is Begun.DATA:
                return None
            # What follows is not read: no length may promise it.
            reply.headers.popall("Content-Length", None)
            reply.hold(reply.first or b"")
            return Kind.SERVER if amounts_to is Begun.FAILED else Kind.INVALID
        kind = reply.headers.get("Content-Type", "").lower()
        if kind.startswith("text/event-stream") or (chat is None and "json" not in kind):
            return None
        return await _hold_plain(reply)

    async def _error_of(self, candidate: Candidate, reply: EngineReply) -> Kind | None:
        kind, wish = reply.kind, reply.headers.get("x-should-retry", "").lower()
        if kind is None and (reply.status in _AGAIN_STATUS or reply.status >= 500 or wish == "true"):
            kind = Kind.SERVER
        if reply.status in TOO_LONG_STATUSES and self._candidates.for_longer:
            await hold_error(reply)
            if says_too_long(reply.status, reply.first or b""):
                kind = Kind.TOO_LONG
        if kind is None and candidate is not self._candidates.planned:
            kind = Kind.REFUSED
        if kind is None:
            return None
        if wish == "false" and kind not in _ENGINES_OWN:
            self._candidates.end()
        await hold_error(reply)
        return kind

    def _note_answer(self, candidate: Candidate, reply: EngineReply, began: float) -> None:
        tried = Tried(candidate.name, reply.replica, None, reply.status, time.monotonic() - began)
        self.trail.append(tried)

    def _note_failure(
        self, candidate: Candidate, kind: Kind, began: float, came: EngineReply | EngineError, status: int = 0
    ) -> None:
        if isinstance(came, EngineError):
            self.paid_usd += came.paid_usd
        if isinstance(came, Unavailable):
            if isinstance(came, Declined) and self._candidates.several:
                self._candidates.spare(candidate)
                self.declined += 1
                return
            self._candidates.refused(candidate, came)
            return
        why, said = _words(came)
        took_s = time.monotonic() - began
        self.trail.append(Tried(candidate.name, came.replica, kind, status, took_s, why, said))
        limited_s = came.limited_s if isinstance(came, EngineReply) else None
        once = status == _OFTEN_ONCE and isinstance(came, EngineReply) and "Retry-After" not in came.headers
        alike = status in _ABOUT_THE_REQUEST and came.kind is None
        self._candidates.failed(candidate, kind, limited_s, replica=came.replica, alike=alike, once=once)
        masks = candidate is not self._candidates.planned and 400 <= status < 500
        if self._failure is None and not masks:
            self._failure = candidate, came

    def _failed(self) -> EngineReply:
        """The first failure as it came; raised where it is no answer. A stand-in's 4xx says nothing of the request."""
        if self._failure is None:
            refusal = self._candidates.refusal
            assert refusal is not None
            raise refusal.refusal if isinstance(refusal, Unsayable) else refusal
        candidate, came = self._failure
        if isinstance(came, EngineError):
            raise came
        self.index, self._reply = candidate.index, came
        return came

    async def _leave(self) -> None:
        context, self._context = self._context, None
        if context is not None:
            await context.__aexit__(None, None, None)

    # ---- from the first data on

    async def _in_whole_events(
        self, reply: EngineReply, first: bytes | None, source: AsyncIterator[bytes], tail: Tail
    ) -> AsyncIterator[bytes]:
        cutter = self._cutter = EventCutter(self._limit_bytes)
        given_up = False
        # Until the answer has ended, or nobody is left who gives it.
        while self._context is not None:
            broken: EngineError | None = None
            error_event = b""
            try:
                chunk = first or await anext(source, None)
                piece = cutter.rest() if chunk is None else cutter.whole(chunk)
            except EngineError as error:
                broken, chunk, piece = error, None, b""
            first = None
            if cutter.given_up:
                self._candidates.end()
            elif not given_up and b'"error"' in piece:
                piece, error_event = split_at_failure(piece)
            if piece:
                self._note(piece)
                yield piece
            if chunk is not None and not error_event:
                continue
            if not error_event:
                broken, last = self._ended(reply, tail, broken, given_up=given_up)
                if last:
                    yield last
                if broken is None:
                    return
            self._note_break(broken, error_event)
            successor = await self._take_over()
            if successor is not None:
                source, cutter = successor, EventCutter(self._limit_bytes)
                continue
            given_up = True
            yield self._first_break()

    def _ended(
        self, reply: EngineReply, tail: Tail, broken: EngineError | None, *, given_up: bool
    ) -> tuple[EngineError | None, bytes]:
        """The error that a stream ended with; None where the answer is whole, with what it still lacks."""
        if broken is None:
            if not self.carried_on:
                reply.drained_at = time.monotonic()
            return (
                no_terminal_event(reply.engine) if tail.cut(delimited=reply.self_delimiting) else None
            ), b""
        if given_up or not tail.finished() or tail.failed():
            return broken, b""
        # The answer is whole: what is missing is its usage at most, which no other engine could tell.
        return None, b"" if tail.done() else DONE

    def _first_break(self) -> bytes:
        """The error event that the answer first broke off with. Raises the EngineError, where it was one."""
        assert self._broke is not None
        if isinstance(self._broke, EngineError):
            raise self._broke
        return self._broke

    async def _flow(self, reply: EngineReply, flow: Flow, take: Take) -> None:
        """See EngineReply.flow: whole events without an error; the rest is for `_in_whole_events`."""
        if reply is not self._reply or self._cutter.holds or self._cutter.given_up:
            return

        def take_whole(chunk: bytes) -> bool:
            if not chunk.endswith(b"\n\n") or b'"error"' in chunk or not take(chunk):
                return False
            self._note(chunk)
            return True

        await flow(take_whole)

    def _note(self, piece: bytes) -> None:
        self._sent_bytes += len(piece)
        if self._sent_bytes <= self._limit_bytes:
            self._sent.append(piece)
        else:
            self._sent.clear()
            self._candidates.end()

    def _note_break(self, error: EngineError | None, event: bytes) -> None:
        """The stream broke off; None: with an error event."""
        self._broke = self._broke or error or event
        kind = Kind.SERVER if error is None else error.kind
        why = "" if error is None else error.message[:_WORDS_BYTES]
        self.trail[-1] = replace(self.trail[-1], kind=kind, why=why, said=event[:_WORDS_BYTES])
        if self._reply is not None:
            self._candidates.left_off(self._asked, self._reply.replica)
            if not isinstance(error, NoMatch):
                self._reply.broken = kind

    async def _take_over(self) -> AsyncIterator[bytes] | None:
        """The rest of the answer; None where nobody gives it."""
        partial = read_partial(b"".join(self._sent)) if len(self.carried_on) < _MOST_SEAMS else None
        if partial is None:
            return None
        # First, so that its place is free: the successor may be the same engine.
        self._candidates.carry_on(self._asked, beginning=bool(partial.text.strip()))
        while (candidate := self._candidates.next()) is not None:
            await self._leave()
            source = await self._carried_on(candidate, partial)
            if source is not None:
                return source
        return None

    async def _carried_on(self, candidate: Candidate, partial: PartialAnswer) -> AsyncIterator[bytes] | None:
        """The rest of the answer by this one; None where it does not give it."""
        if pause_s := self._candidates.pause_s(candidate):
            await asyncio.sleep(pause_s)
        instructed = candidate.instructed or candidate.engine.info.continues == "instruct"
        tokens, began = await _tokens(candidate.engine, partial), time.monotonic()
        asked = self._candidates.asked(candidate, continuable=True)
        reply = await self._entered(candidate, continuation(asked, partial, tokens, instructed=instructed))
        if reply is None:
            return None
        if reply.status == 200 and reply.streams_events:
            self._note_answer(candidate, reply, began)
            # One that is given the beginning, or nothing, repeats nothing.
            repeats = instructed and bool(partial.text.strip())
            return self._spliced(candidate, reply, partial, tokens, repeats=repeats)
        await self._leave()
        if reply.kind is None and 400 <= reply.status < 500 and not instructed:
            took_s = time.monotonic() - began
            self.trail.append(Tried(candidate.name, reply.replica, Kind.REFUSED, reply.status, took_s))
            self._candidates.instruct(candidate)
        else:
            self._note_failure(candidate, reply.kind or Kind.REFUSED, began, reply, reply.status)
        return None

    async def _spliced(
        self, candidate: Candidate, reply: EngineReply, partial: PartialAnswer, tokens: int, *, repeats: bool
    ) -> AsyncIterator[bytes]:
        began = False
        async for piece in spliced(reply.chunks, partial, tokens, repeats=repeats):
            if not began:
                began = True
                self.carried_on.append(CarriedOn(candidate.engine, tokens))
                yield f": understudy: {_name(reply)} carries on from here\n\n".encode()
            yield piece


def no_terminal_event(engine: str) -> StreamBroken:
    """The error of a stream that ended neatly without saying that it was over."""
    return StreamBroken("The upstream's stream ended without its terminal event.", engine=engine)


def _words(came: EngineReply | EngineError) -> tuple[str, bytes]:
    """Says what broke, in words of ours; and what an engine answered with."""
    if isinstance(came, EngineError):
        return came.message[:_WORDS_BYTES], b""
    return "", (came.first or b"")[:_WORDS_BYTES]


async def _hold_stream(reply: EngineReply) -> Begun:
    """Read a stream until it says something, and keep what was read. Raises the EngineError that it ends early with."""
    cutter, held, held_bytes, amounts_to = EventCutter(), [], 0, Begun.NOTHING
    chunk: bytes | None = reply.first
    try:
        while amounts_to is Begun.NOTHING:
            if held_bytes > _HELD_BYTES:
                amounts_to = Begun.DATA
                break
            chunk = await anext(reply.rest, None) if chunk is None else chunk
            if chunk is None:
                amounts_to = begun(cutter.rest(), cut=True)
                break
            held.append(chunk)
            held_bytes += len(chunk)
            amounts_to, chunk = begun(cutter.whole(chunk)), None
    except EngineError as error:
        reply.broken = error.kind
        raise
    reply.first = b"".join(held)
    return amounts_to


async def _hold_plain(reply: EngineReply) -> Kind | None:
    """Read a whole answer, and keep it. Raises the EngineError that it ends early with."""
    body, source = bytearray(), reply.chunks
    async for chunk in source:
        body += chunk
        if len(body) > _PLAIN_BYTES:
            reply.first, reply.rest = bytes(body), source
            return None
    held = bytes(body)
    reply.hold(held)
    return None if wrong_with(held, reply.headers) is None else Kind.INVALID


async def _tokens(engine: Engine, partial: PartialAnswer) -> int:
    """Tokens of the partial answer: by the new engine's own count if it has one, else one for each piece of the stream."""
    counted = (
        await engine.count_tokens(partial.text) if partial.text and isinstance(engine, CountsTokens) else None
    )
    return partial.pieces if counted is None else counted


def _name(reply: EngineReply) -> str:
    """The engine's name, fit for a comment: names come from the configuration and may hold anything."""
    return "".join(c for c in reply.engine if c.isprintable())
