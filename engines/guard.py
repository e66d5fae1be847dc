"""Wraps any engine: an in-flight limit with a bounded queue, retries before the first chunk, a circuit breaker.

An answer counts as begun when its first chunk is here, not when its head is: until then nothing has been shown to the
client and asking again is safe.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from engines.breaker import Breaker
from engines.engine import (
    ADMITTED,
    Admission,
    CountsTokens,
    Engine,
    EngineInfo,
    EngineLoad,
    EngineReply,
    EngineRequest,
    Starts,
)
from engines.errors import ConnectFailed, EngineError, Kind, StreamBroken, TimedOut, Unavailable
from engines.pace import Pace
from engines.rate_limits import share_left
from engines.refusals import kind_of
from engines.retry_after import retry_after_s
from engines.sse import begins_with_error

RETRYABLE_STATUS = frozenset({408, 409, 429, 500, 502, 503, 504, 520, 522, 524, 529})
"""No other 4xx is ever asked again: the request itself is wrong, or was refused."""
_BROKEN_STATUS = 500
_NEVER_BEGAN = (ConnectFailed, StreamBroken)
"""Before the first chunk a broken stream is a failed connection."""
_DRAINED_RETRY_S = 10.0
_LIMIT_FRESH_S = 60.0
"""Upstreams tell what is left of a minute's rate limit: an older figure means nothing."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many requests an engine is sent at once, and how often one is tried again."""

    max_in_flight: int
    max_queued: int
    attempts: int
    max_wait_s: float = 5.0
    first_wait_s: float = 0.2


class Guard:
    """An engine with a guard around it; itself an Engine."""

    def __init__(self, engine: Engine, limits: Limits, breaker: Breaker) -> None:
        self._engine = engine
        self._limits = limits
        self.breaker = breaker
        self._slots = asyncio.Semaphore(self._limits.max_in_flight)
        self._in_flight = 0
        self._queued = 0
        self._pace = Pace()
        self._limit_left: float | None = None
        self._limit_told = 0.0
        self.drained = False
        """The operator drains it: requests under way finish, new ones are refused."""
        self.asked = self.failed = 0
        """Tries since the start, and those of them that failed or were answered with a server error."""

    @property
    def info(self) -> EngineInfo:
        """See engines.engine.Engine."""
        return self._engine.info

    def stream(self, request: EngineRequest) -> GuardedStream:
        """See engines.engine.Engine.stream. Raises Unavailable when the engine is not to be asked now."""
        return GuardedStream(self, request)

    def load(self) -> EngineLoad:
        """What passes through this guard, and what the engine says of itself."""
        inner = self._engine.load()
        fresh = time.monotonic() - self._limit_told < _LIMIT_FRESH_S
        return replace(
            inner,
            # What waits inside the engine came through here too: it must not count twice.
            in_flight=max(self._in_flight - inner.queued, inner.in_flight),
            queued=self._queued + inner.queued,
            capacity=inner.capacity or self._limits.max_in_flight,
            first_chunk_s=self._pace.first_chunk_s,
            idle_first_chunk_s=self._pace.idle_first_chunk_s,
            answer_s=self._pace.answer_s,
            answer_tokens=self._pace.answer_tokens,
            limit_left=self._limit_left if fresh else None,
            open=inner.open and self.breaker.lets_through and not self.drained,
        )

    def told(self, reply: EngineReply) -> None:
        """Note what an answer's head says of the engine."""
        left = share_left(reply.headers)
        if left is not None:
            self._limit_left, self._limit_told = left, time.monotonic()

    def said(self, tokens: int) -> None:
        """Note how long an answer was, in tokens. From any thread."""
        self._pace.said(tokens)

    def took(self, reply: EngineReply, *, stream: bool, first_chunk_s: float, answer_s: float) -> None:
        """Note how long an answer took. A refusal is fast and says nothing about the engine's pace."""
        if reply.status < 400:
            self._pace.ended(answer_s)
            if stream:
                self._pace.began(first_chunk_s)

    async def health(self) -> bool:
        """See engines.engine.Engine.health."""
        return await self._engine.health()

    @property
    def problem(self) -> str | None:
        """See engines.engine.Starts; None of an engine that is brought up elsewhere."""
        return self._engine.problem if isinstance(self._engine, Starts) else None

    def start(self) -> None:
        """See engines.engine.Starts."""
        if isinstance(self._engine, Starts):
            self._engine.start()

    async def count_tokens(self, what: str | Sequence[Mapping[str, Any]]) -> int | None:
        """See engines.engine.CountsTokens; None of an engine that cannot."""
        return await self._engine.count_tokens(what) if isinstance(self._engine, CountsTokens) else None

    async def aclose(self) -> None:
        """See engines.engine.Engine.aclose."""
        await self._engine.aclose()

    def admits(self, request: EngineRequest) -> Admission:
        """See engines.engine.Admits."""
        refusal = self._no_place() or self.breaker.refusal()
        return ADMITTED if refusal is None else Admission(refusal)

    def _no_place(self) -> Unavailable | None:
        if self.drained:
            return Unavailable(
                f"The engine '{self.info.name}' is drained: its operator wants nothing new asked of it.",
                engine=self.info.name,
                retry_after_s=_DRAINED_RETRY_S,
            )
        if self._slots.locked() and self._queued >= self._limits.max_queued:
            return Unavailable(
                f"The engine '{self.info.name}' is at its limit of {self._limits.max_in_flight} requests, and "
                f"{self._queued} more are waiting.",
                engine=self.info.name,
                kind=Kind.FULL,
                retry_after_s=1,
            )
        return None

    async def take_slot(self) -> None:
        """Wait for a place. Raises Unavailable at once when the queue is full, or the engine is drained."""
        if (refusal := self._no_place()) is not None:
            raise refusal
        self._queued += 1
        try:
            await self._slots.acquire()
        finally:
            self._queued -= 1
        self._in_flight += 1

    def give_slot(self) -> None:
        """Give a place back."""
        self._in_flight -= 1
        self._slots.release()

    def begin(self, request: EngineRequest) -> tuple[AbstractAsyncContextManager[EngineReply], bool]:
        """The engine's answer, to be entered, and whether it is the circuit breaker's probe. Raises Unavailable."""
        probe = self.breaker.admit()
        self.asked += 1
        return self._engine.stream(request), probe

    def answered(self, reply: EngineReply) -> None:
        """Tell the circuit breaker of an answer that began, and say what kind of failure it is."""
        reply.kind = kind_of(
            reply.status,
            reply.first or b"",
            holds_key=self.info.holds_key,
            says_when=retry_after_s(reply.headers) is not None,
        )
        if reply.status >= _BROKEN_STATUS:
            self.failed += 1
            self.breaker.failed()
        else:
            self.breaker.succeeded()

    def not_answered(self, error: BaseException, *, probe: bool) -> None:
        """Tell the circuit breaker that no answer began."""
        # Unavailable: the engine itself says that it is not up. Anything but an EngineError: the client left.
        if isinstance(error, EngineError) and not isinstance(error, Unavailable):
            self.failed += 1
            self.breaker.failed()
        elif probe:
            self.breaker.abandoned()

    def retry_in_s(self, tried: int, came: EngineReply | EngineError) -> float | None:
        """Seconds to wait before asking again, after `tried` tries; None where what came is to be passed on."""
        limits = self._limits
        if tried >= limits.attempts or not _asks_for_retry(came):
            return None
        wanted_s = (retry_after_s(came.headers) or 0.0) if isinstance(came, EngineReply) else 0.0
        if wanted_s > limits.max_wait_s:
            return None
        # Full jitter: clients that failed together must not come back together.
        most_s = min(limits.max_wait_s, limits.first_wait_s * 2 ** (tried - 1))
        return max(wanted_s, random.uniform(0.0, most_s))


class GuardedStream:
    """One guarded request: the context manager that Guard.stream returns."""

    __slots__ = ("_began", "_context", "_first_chunk_s", "_guard", "_reply", "_request")

    def __init__(self, guard: Guard, request: EngineRequest) -> None:
        self._guard = guard
        self._request = request
        self._context: AbstractAsyncContextManager[EngineReply] | None = None
        self._reply: EngineReply | None = None
        self._began = self._first_chunk_s = 0.0

    async def __aenter__(self) -> EngineReply:
        """Ask until an answer begins, tries run out or waiting is not worth it. Raises EngineError."""
        guard = self._guard
        self._began = time.monotonic()
        await guard.take_slot()
        try:
            reply = self._reply = await self._begun()
        except BaseException:
            guard.give_slot()
            raise
        self._first_chunk_s = time.monotonic() - self._began
        guard.told(reply)
        return reply

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        reply, chat = self._reply, self._request.chat
        try:
            if reply is not None and reply.drained_at is not None:
                self._guard.took(
                    reply,
                    stream=chat is not None and chat.stream,
                    first_chunk_s=self._first_chunk_s,
                    answer_s=reply.drained_at - self._began,
                )
            await self._leave()
        finally:
            self._guard.give_slot()

    async def _begun(self) -> EngineReply:
        guard, tried = self._guard, 0
        while True:
            tried += 1
            context, probe = guard.begin(self._request)
            try:
                reply = await context.__aenter__()
                self._context = context
                reply.first = await anext(reply.rest, b"")
            except BaseException as error:
                guard.not_answered(error, probe=probe)
                await self._leave()
                wait_s = guard.retry_in_s(tried, error) if isinstance(error, EngineError) else None
                if wait_s is None:
                    if isinstance(error, StreamBroken):
                        raise ConnectFailed(error.message, engine=error.engine) from error
                    raise
            else:
                guard.answered(reply)
                wait_s = guard.retry_in_s(tried, reply)
                if wait_s is None:
                    return reply
                await self._leave()
            await asyncio.sleep(wait_s)

    async def _leave(self) -> None:
        context, self._context = self._context, None
        if context is not None:
            await context.__aexit__(None, None, None)


def _asks_for_retry(came: EngineReply | EngineError) -> bool:
    """Whether asking again may help, and can do no harm."""
    if isinstance(came, EngineError):
        return (
            came.kind is Kind.TIMEOUT_CONNECT
            if isinstance(came, TimedOut)
            else isinstance(came, _NEVER_BEGAN)
        )
    wish = came.headers.get("x-should-retry")
    if wish is not None and came.status >= 400:
        return wish.lower() == "true"
    return came.status in RETRYABLE_STATUS or begins_with_error(came.first or b"")
