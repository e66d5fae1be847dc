"""Wraps any engine: an in-flight limit with a bounded queue, retries before the first chunk, a circuit breaker.

An answer counts as begun when its first chunk is here, not when its head is: until then nothing has been shown to the
client and asking again is safe.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, retry_any, retry_if_exception, retry_if_result
from tenacity.wait import wait_random_exponential

from engines.breaker import Breaker
from engines.engine import (
    CountsTokens,
    Engine,
    EngineInfo,
    EngineLoad,
    EngineReply,
    EngineRequest,
    Starts,
)
from engines.errors import ConnectFailed, EngineError, StreamBroken, TimedOut, Unavailable
from engines.pace import Pace
from engines.rate_limits import share_left
from engines.retry_after import retry_after_s
from engines.sse import begins_with_error

RETRYABLE_STATUS = frozenset({408, 409, 429, 500, 502, 503, 504, 520, 522, 524, 529})
"""No other 4xx is ever asked again: the request itself is wrong, or was refused."""
_BROKEN_STATUS = 500
_DRAINED_RETRY_S = 10.0
_LIMIT_FRESH_S = 60.0
"""Rate limits are told per minute: an older word means nothing."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How hard an engine may be pressed."""

    max_in_flight: int
    max_queued: int
    attempts: int
    max_wait_s: float = 5.0
    first_wait_s: float = 0.2


@dataclass(slots=True)
class _Opened:
    """An answer whose first chunk is here."""

    context: AbstractAsyncContextManager[EngineReply]
    reply: EngineReply
    error_first: bool
    """A stream whose very first event is an error."""
    ended_at: float | None = None
    """When its last chunk was taken (time.monotonic); None for one that was left, or broke off."""

    def asks_for_retry(self) -> bool:
        wish = self.reply.headers.get("x-should-retry")
        if wish is not None and self.reply.status >= 400:
            return wish.lower() == "true"
        return self.reply.status in RETRYABLE_STATUS or self.error_first

    async def close(self) -> None:
        await self.context.__aexit__(None, None, None)


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
        """An operator wants it left alone: what is under way ends, nothing new is asked."""
        self.asked = self.failed = 0
        """Tries since the start, and those of them that failed or were answered with a server error."""

    @property
    def info(self) -> EngineInfo:
        """See engines.engine.Engine."""
        return self._engine.info

    def stream(self, request: EngineRequest) -> _Guarded:
        """See engines.engine.Engine.stream. Raises Unavailable when the engine is not to be asked now."""
        return _Guarded(self, request)

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
            limit_left=self._limit_left if fresh else None,
            open=inner.open and self.breaker.lets_through and not self.drained,
        )

    def told(self, reply: EngineReply) -> None:
        """Note what an answer's head says of the engine."""
        left = share_left(reply.headers)
        if left is not None:
            self._limit_left, self._limit_told = left, time.monotonic()

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

    async def take_slot(self) -> None:
        """Wait for a place. Raises Unavailable at once when the queue is full, or the engine is drained."""
        if self.drained:
            raise Unavailable(
                f"The engine '{self.info.name}' is drained: its operator wants nothing new asked of it.",
                engine=self.info.name,
                retry_after_s=_DRAINED_RETRY_S,
            )
        if self._slots.locked() and self._queued >= self._limits.max_queued:
            raise Unavailable(
                f"The engine '{self.info.name}' is at its limit of {self._limits.max_in_flight} requests, and "
                f"{self._queued} more are waiting.",
                engine=self.info.name,
                retry_after_s=1,
            )
        self._queued += 1
        try:
            await self._slots.acquire()
        finally:
            self._queued -= 1
        self._in_flight += 1

    def give_slot(self) -> None:
        """Let the next one in."""
        self._in_flight -= 1
        self._slots.release()

    async def open(self, request: EngineRequest) -> _Opened:
        """Ask until an answer begins, tries run out or waiting is not worth it. Raises EngineError."""
        limits = self._limits
        retrying = AsyncRetrying(
            stop=self._give_up,
            # Full jitter: clients that failed together must not come back together.
            wait=_Wait(limits.first_wait_s, limits.max_wait_s),
            retry=retry_any(retry_if_result(_Opened.asks_for_retry), retry_if_exception(_may_try_again)),
            retry_error_callback=_last_outcome,
            before_sleep=_close_failed,
        )
        opened: _Opened = await retrying(self._once, request)
        return opened

    def _give_up(self, state: RetryCallState) -> bool:
        if state.attempt_number >= self._limits.attempts:
            return True
        wanted = _wanted_wait_s(state)
        return wanted is not None and wanted > self._limits.max_wait_s

    async def _once(self, request: EngineRequest) -> _Opened:
        probe = self.breaker.admit()
        self.asked += 1
        context = self._engine.stream(request)
        try:
            reply = await context.__aenter__()
            try:
                first = await anext(reply.chunks, b"")
            except BaseException:
                await context.__aexit__(None, None, None)
                raise
        except Unavailable:
            # It says itself that it is not up: no failure to be learnt from, and no reason to wait once it is.
            if probe:
                self.breaker.abandoned()
            raise
        except EngineError as error:
            self.failed += 1
            self.breaker.failed()
            if isinstance(error, StreamBroken):
                raise ConnectFailed(error.message, engine=error.engine) from error
            raise
        except BaseException:
            if probe:
                self.breaker.abandoned()
            raise
        if reply.status >= _BROKEN_STATUS:
            self.failed += 1
            self.breaker.failed()
        else:
            self.breaker.succeeded()
        opened = _Opened(context, reply, begins_with_error(first))
        reply.chunks = _with_first(first, reply.chunks, opened)
        return opened


class _Guarded:
    """One guarded request: the context manager that Guard.stream returns."""

    __slots__ = ("_began", "_first_chunk_s", "_guard", "_opened", "_request")

    def __init__(self, guard: Guard, request: EngineRequest) -> None:
        self._guard = guard
        self._request = request
        self._opened: _Opened | None = None
        self._began = self._first_chunk_s = 0.0

    async def __aenter__(self) -> EngineReply:
        self._began = time.monotonic()
        await self._guard.take_slot()
        try:
            self._opened = await self._guard.open(self._request)
        except BaseException:
            self._guard.give_slot()
            raise
        self._first_chunk_s = time.monotonic() - self._began
        self._guard.told(self._opened.reply)
        return self._opened.reply

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._opened is not None:
                if self._opened.ended_at is not None:
                    chat = self._request.chat
                    self._guard.took(
                        self._opened.reply,
                        stream=chat is not None and chat.stream,
                        first_chunk_s=self._first_chunk_s,
                        answer_s=self._opened.ended_at - self._began,
                    )
                await self._opened.context.__aexit__(None, None, None)
        finally:
            self._guard.give_slot()


async def _with_first(first: bytes, rest: AsyncIterator[bytes], opened: _Opened) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for chunk in rest:
        yield chunk
    opened.ended_at = time.monotonic()


def _may_try_again(error: BaseException) -> bool:
    if isinstance(error, TimedOut):
        return error.phase == "connect"
    return isinstance(error, ConnectFailed)


def _wanted_wait_s(state: RetryCallState) -> float | None:
    """What the failed answer itself asks to wait."""
    outcome = state.outcome
    if outcome is None or outcome.failed:
        return None
    opened: _Opened = outcome.result()
    return retry_after_s(opened.reply.headers)


class _Wait:
    """Full jitter, but never less than the upstream asked for."""

    def __init__(self, first_s: float, most_s: float) -> None:
        self._jitter = wait_random_exponential(multiplier=first_s, max=most_s)

    def __call__(self, state: RetryCallState) -> float:
        return max(self._jitter(state), _wanted_wait_s(state) or 0.0)


def _last_outcome(state: RetryCallState) -> _Opened:
    """Out of tries: the last answer as it came, or the last error."""
    assert state.outcome is not None
    opened: _Opened = state.outcome.result()
    return opened


async def _close_failed(state: RetryCallState) -> None:
    if state.outcome is not None and not state.outcome.failed:
        opened: _Opened = state.outcome.result()
        await opened.close()
