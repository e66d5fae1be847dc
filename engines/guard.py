"""Wraps any engine: an in-flight limit before a bounded line, a circuit breaker, and what is known of its rate limits.

It admits, measures and counts. It asks once: who is asked again, and who next, is decided in engines.attempts. Of its kind
there may be several, one before each replica of an engine (engines.replicas): it knows nothing of the others, but that they
may share its line.

An answer counts as begun when its first chunk is here, not when its head is, and that of a probe when the first of its data
is. That it began well does not count as success: that it ended well does.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, NamedTuple

from engines.answer_times import AnswerTime
from engines.answers.beginning import holds_data
from engines.answers.tail import Tail
from engines.breaker import Breaker
from engines.caps import Caps, Held
from engines.decoding_curve import DecodingCurve
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
from engines.error_texts import hold_error
from engines.errors import ConnectFailed, EngineError, Kind, RateLimited, StreamBroken, Unavailable
from engines.gate import Gate, Pass
from engines.limits import Credentials, RateLimit, with_jitter
from engines.line import Line, Seat
from engines.pace import Pace
from engines.refusals import WORDED, refusal_of
from engines.retry_after import retry_after_s
from engines.sse import begins_with_error
from engines.standing import Since, Standing, words_of
from engines.telling_usage import asking

_DRAINED_RETRY_S = 10.0
_LIMIT_FRESH_S = 60.0
"""Upstreams tell what is left of a minute's rate limit: an older figure means nothing."""
_DECODED_TOKENS = 16
"""A shorter answer tells little of the time that a token takes."""
_HELD_BYTES = 256 * 1024
"""Of a stream that has not come to its data."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many requests an engine is sent at once, and how many more may wait."""

    max_in_flight: int
    max_queued: int
    tokens_in_flight: int | None
    latency_tokens_in_flight: int | None
    slo_tpot_ms: float | None
    """Milliseconds that a token of an answer may take which somebody waits for."""

    @property
    def caps(self) -> Caps:
        """How many tokens it holds at once."""
        return Caps(self.tokens_in_flight, self.latency_tokens_in_flight)


class Failure(NamedTuple):
    """The latest failure of an engine."""

    kind: Kind
    status: int
    """Of the answer; 0 where there was none."""
    at_s: float
    """Unix time."""
    text: str = ""
    """In words, which may quote the engine's answer; empty where that may hold a client's own key."""

    @property
    def told(self) -> str:
        """All of it in one line."""
        what = f"{self.kind} {self.status}" if self.status else f"{self.kind}"
        return f"{what}: {' '.join(self.text.split())}" if self.text else what


class Probe(NamedTuple):
    """The latest health check of an engine."""

    at_s: float
    """Unix time at its end."""
    seconds: float
    """How long it took."""
    error: str = ""
    """In words; empty: it was good."""


_STANDINGS = {Kind.OPEN: Standing.DOWN, Kind.REFUSED: Standing.REFUSED, Kind.LIMITED: Standing.LIMITED}


class Guard:
    """An engine with a guard around it; itself an Engine.

    `credentials`: the rate limits of the clients' own keys, where the engine is sent those; None where the gateway holds
    the key, and its limits and refusals are everybody's. `line`: where its requests wait, with those of other replicas.
    """

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        breaker: Breaker,
        credentials: Credentials | None = None,
        line: Line | None = None,
    ) -> None:
        self._engine = engine
        self._limits = limits
        self.breaker = breaker
        self.engine_limit = RateLimit(breaker.gate)
        self._credentials = credentials
        self.line = line or Line(limits.max_queued, limits.caps)
        self.line.serves(self)
        self.held = Held(self.line.caps)
        """The tokens under way here, where the line counts them."""
        self._curve = None if limits.slo_tpot_ms is None else DecodingCurve()
        if self._curve is not None:
            self.line.counts = True
        self.in_flight = 0
        """Requests that have a place here."""
        self.answer_time: AnswerTime | None = None
        """Beside those of other replicas; None where there are none."""
        self._pace = Pace()
        self._limit_left: float | None = None
        self._limit_told = 0.0
        self.own_keys: frozenset[str] = frozenset()
        """Tenants whose requests it is sent with a key of their own: what that one is refused is nobody else's."""
        self._own_limits: dict[str, RateLimit] = {}
        self.drained = False
        """The operator drains it: requests under way finish, new ones are refused."""
        self.asked = self.failed = 0
        """Tries since the start, and those of them that failed or were answered with a server error."""
        self.failures: Counter[Kind] = Counter()
        """Failures since the start, by kind."""
        self.last_failure: Failure | None = None
        self.last_probe: Probe | None = None
        """None before the first."""
        self.heard_at = 0.0
        """When it last gave a sign of life (time.monotonic); 0 before the first."""
        self.turned_away = 0
        """Requests that would have gone to it, and found it left alone."""
        self._since = Since(Standing.UNKNOWN, time.time())

    @property
    def info(self) -> EngineInfo:
        """See engines.engine.Engine."""
        return self._engine.info

    def stream(self, request: EngineRequest) -> GuardedStream:
        """See engines.engine.Engine.stream. Raises Unavailable when the engine is not to be asked now."""
        return GuardedStream(self, request)

    def admits(self, request: EngineRequest) -> Admission:
        """Whether `request` may be sent to it now. Changes nothing; `stream`, entered at once, agrees."""
        if (refusal := self._no_place(request)) is not None:
            return Admission(refusal)
        return self.lets(request)

    def lets(self, request: EngineRequest) -> Admission:
        """The same, whether it has a place or not."""
        if self.drained:
            return Admission(self._drained())
        limit = self.rate_limit(request)
        for gate in _gates(self.breaker.gate, limit.gate):
            if gate.kind is not None and not gate.lets_through:
                self.turned_away += 1
                return Admission(self.refusal(gate), opens_in_s=_opens_in_s(gate))
        return Admission(spared=True) if limit.spares(request) else ADMITTED

    @property
    def has_place(self) -> bool:
        """See engines.line.HasPlaces."""
        return self.in_flight < self._limits.max_in_flight

    def rate_limit(self, request: EngineRequest) -> RateLimit:
        """The rate limit that a request falls under."""
        if request.tenant in self.own_keys:
            return self._own_limits.setdefault(request.tenant, RateLimit(Gate()))
        return self.engine_limit if self._credentials is None else self._credentials.of(request)

    def holds_key(self, request: EngineRequest) -> bool:
        """Whether this request is sent with the gateway's own key, or none: then its refusal is the gateway's problem."""
        return self.info.holds_key and request.tenant not in self.own_keys

    def load(self) -> EngineLoad:
        """What passes through this guard, and what the engine says of itself."""
        inner = self._engine.load()
        fresh = time.monotonic() - self._limit_told < _LIMIT_FRESH_S
        return replace(
            inner,
            # What waits inside the engine came through here too: it must not count twice.
            in_flight=max(self.in_flight - inner.queued, inner.in_flight),
            # One that is shared is told by who has all of them.
            queued=inner.queued + (0 if self.line.shared else self.line.waiting),
            capacity=inner.capacity or self._limits.max_in_flight,
            first_chunk_s=self._pace.first_chunk_s,
            idle_first_chunk_s=self._pace.idle_first_chunk_s,
            answer_s=self._pace.answer_s,
            answer_tokens=self._pace.answer_tokens,
            limit_left=self._limit_left if fresh else None,
            open=inner.open and self.breaker.gate.lets_through and not self.drained,
        )

    def said(self, tokens: int) -> None:
        """Note how long an answer was, in tokens. From any thread."""
        self._pace.said(tokens)

    async def health(self) -> None:
        """See engines.engine.Engine.health."""
        await self._engine.health()

    # ---- how it stands

    def since(self) -> Since:
        """Its state, and since when. The same object while nothing changes."""
        self._since = self._since.now(self._standing())
        return self._since

    @property
    def busy(self) -> bool:
        """Whether requests are under way there."""
        return self.in_flight > 0

    def is_alive(self) -> None:
        """A health check was good: where it is down, the next request tries it."""
        gate = self.breaker.gate
        if gate.kind is None:
            self.heard_at = time.monotonic()
        elif gate.kind is Kind.OPEN:
            gate.test_now()

    def is_down(self, error: EngineError, *, next_s: float, for_s: float) -> None:
        """A health check was bad: it is left alone until the next, in `next_s`, or for `for_s` should none come."""
        self.last_failure = Failure(error.kind, 0, time.time(), error.message)
        self.breaker.gate.shut(Kind.OPEN, for_s, next_s)

    def _standing(self) -> Standing:
        gate = self.breaker.gate
        if self.drained:
            return Standing.DRAINED
        if self.problem is not None:
            return Standing.DOWN
        if gate.kind is None:
            return Standing.UP if self.heard_at else Standing.UNKNOWN
        return Standing.UNKNOWN if gate.tested else _STANDINGS[gate.kind]

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

    # ---- admitting: for GuardedStream

    def seat(self, request: EngineRequest) -> Seat:
        """What a request takes of a place here."""
        return self.line.seat(request, self._pace.answer_tokens)

    async def take_slot(self, request: EngineRequest, seat: Seat | None = None) -> bool:
        """Wait for a place; whether it had to. `seat`: what it takes, where that is counted.

        Raises Unavailable at once when the queue is full, or it is drained.
        """
        if self.drained:
            raise self._drained()
        line = self.line
        if not line.holds_back and self.took_slot(seat):
            return False
        if line.full and not request.is_step:
            raise self.full()
        waits = seat or self.seat(request)
        await line.wait(waits, lambda: self.took_slot(seat), lambda: self.give_slot(seat))
        return True

    def took_slot(self, seat: Seat | None = None) -> bool:
        """Take a place, where there is one. None: its tokens are not counted."""
        if self.in_flight >= self._limits.max_in_flight:
            return False
        if seat is not None:
            if not self.fits(seat):
                self.line.keep(self)
                return False
            self.held.enters(seat.placement.rank, seat.tokens, seat.to_compute_tokens)
        self.in_flight += 1
        return True

    def fits(self, seat: Seat | None) -> bool:
        """Whether its caps leave room for a request."""
        return seat is None or self.held.fits(seat.placement.rank, seat.tokens)

    def give_slot(self, seat: Seat | None = None) -> None:
        """Give a place back; the argument is what it was taken with."""
        self.in_flight -= 1
        if seat is not None:
            self.prompt_computed(seat)
            self.held.leaves(seat.placement.rank, seat.tokens)
        if self.line.waiting:
            self.line.look()

    def prompt_computed(self, seat: Seat) -> None:
        """The answer to a prompt has begun."""
        self.held.computed(seat.to_compute_tokens)
        seat.to_compute_tokens = 0

    @property
    def inside(self) -> EngineLoad:
        """What the engine says of itself."""
        return self._engine.load()

    async def pass_through(self, gate: Gate, wait_s: float) -> Pass | None:
        """Enter a gate that does not let everybody through, after `wait_s` at most. Raises Unavailable."""
        if not gate.lets_through:
            self.turned_away += 1
            if wait_s <= 0 or gate.waiting + self.line.waiting >= self.line.most:
                raise self.refusal(gate)
            try:
                return await gate.wait(with_jitter(wait_s), for_time=gate.kind is Kind.LIMITED)
            except TimeoutError:
                raise self.refusal(gate) from None
        return gate.enter()

    def begin(self, request: EngineRequest) -> AbstractAsyncContextManager[EngineReply]:
        """The engine's answer, to be entered. Raises Unavailable."""
        self.asked += 1
        return asking(self._engine, request)

    def refusal(self, gate: Gate) -> Unavailable:
        """Why nobody passes a gate."""
        name = self.info.name
        # At least a second: a probe is under way, or due.
        wait_s = max(1.0, gate.retry_after_s)
        if gate.kind is Kind.LIMITED:
            text = f"The engine '{name}' is at its rate limit for another {wait_s:.0f} s."
            return RateLimited(text, engine=name, retry_after_s=wait_s)
        why = "refuses the gateway's key or model" if gate.kind is Kind.REFUSED else "keeps failing"
        text = f"The engine '{name}' {why} and is being left alone for {wait_s:.0f} s."
        return Unavailable(text, engine=name, kind=gate.kind, retry_after_s=wait_s)

    def _no_place(self, request: EngineRequest) -> Unavailable | None:
        if self.drained:
            return self._drained()
        if not self.line.full or request.is_step or (self.has_place and not self.line.holds_back):
            return None
        return self.full()

    def _drained(self) -> Unavailable:
        return Unavailable(
            f"The engine '{self.info.name}' is drained: its operator wants nothing new asked of it.",
            engine=self.info.name,
            retry_after_s=_DRAINED_RETRY_S,
        )

    def full(self) -> Unavailable:
        """Why nobody else may wait."""
        return Unavailable(
            f"The engine '{self.info.name}' is at its limit of {self._limits.max_in_flight} requests, and "
            f"{self.line.waiting} more are waiting.",
            engine=self.info.name,
            kind=Kind.FULL,
            retry_after_s=1,
        )

    # ---- measuring and counting: for GuardedStream

    def took(self, reply: EngineReply, *, stream: bool, first_chunk_s: float, answer_s: float) -> None:
        """Note how long an answer took. A refusal is fast and says nothing about the engine's pace."""
        if reply.status < 400:
            self._pace.ended(answer_s)
            if stream:
                self._pace.began(first_chunk_s)

    def decoded(self, held_tokens: float, seconds: float, tail: Tail | None) -> None:
        """An answer took so long after its first piece. With an SLO that decides what may be under way."""
        if self._curve is None or tail is None or (tokens := tail.output_tokens()) is None:
            return
        if tokens < _DECODED_TOKENS:
            return
        self._curve.measured(held_tokens, seconds / (tokens - 1))
        limits = self._limits
        most = self._curve.most_tokens((limits.slo_tpot_ms or 0.0) / 1000)
        allowed = [cap for cap in (most, limits.latency_tokens_in_flight) if cap is not None]
        self.held.caps = Caps(limits.tokens_in_flight, min(allowed, default=None))

    def told_left(self, left: float | None) -> None:
        """Note the share of its rate limit that is left, where an answer told."""
        if left is not None:
            self._limit_left, self._limit_told = left, time.monotonic()

    def count(self, kind: Kind, status: int = 0, text: str = "", after_s: float = 0.0) -> None:
        """Note a failure, for people to read; and that it was no fast answer."""
        if self.answer_time is not None:
            self.answer_time.failed(after_s)
        self.failures[kind] += 1
        self.last_failure = Failure(kind, status, time.time(), text)


class GuardedStream:
    """One guarded request: the context manager that Guard.stream returns."""

    __slots__ = (
        "_began",
        "_context",
        "_entered",
        "_first_chunk_s",
        "_guard",
        "_held_tokens",
        "_limit",
        "_reply",
        "_request",
        "_seat",
        "_sent",
        "_slot_at",
        "_waited",
    )

    def __init__(
        self, guard: Guard, request: EngineRequest, began: float | None = None, seat: Seat | None = None
    ) -> None:
        """`began`: a place was taken for it with `seat`, and it has waited for one since (time.monotonic)."""
        self._guard = guard
        self._request = request
        self._seat = seat
        self._waited = began is not None
        self._context: AbstractAsyncContextManager[EngineReply] | None = None
        self._reply: EngineReply | None = None
        self._began = self._slot_at = began or 0.0
        self._first_chunk_s = 0.0
        self._held_tokens = 0
        """What the engine held when its answer began."""
        self._limit = guard.rate_limit(request)
        self._sent = 0
        self._entered: list[tuple[Gate, Pass]] = []
        """The gates that were shut when it entered, and now hang on what becomes of it."""

    @property
    def replica(self) -> str:
        """Which of its engine's base URLs is asked."""
        return self._guard.info.replica

    async def __aenter__(self) -> EngineReply:
        """Ask once an answer may be asked for; return when it has begun. Raises EngineError."""
        guard = self._guard
        now = time.monotonic()
        self._began, self._slot_at = self._began or now, now
        try:
            if not self._waited:
                await self._pass_gates(self._request.wait_s)
                self._seat = guard.seat(self._request) if guard.line.counts else None
                self._waited = await guard.take_slot(self._request, self._seat)
                if self._waited:
                    self._slot_at = time.monotonic()
            if self._waited and not self._entered:
                await self._pass_again()
        except BaseException as error:
            if isinstance(error, Unavailable):
                guard.failures[error.kind] += 1
            self._abandon()
            raise
        try:
            reply = self._reply = await self._begun()
        except BaseException:
            guard.give_slot(self._seat)
            raise
        if self._seat is not None:
            guard.prompt_computed(self._seat)
        now = time.monotonic()
        self._first_chunk_s = now - self._began
        self._held_tokens = guard.held.tokens
        if reply.status < 500:
            guard.heard_at = now
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
                if self._seat is not None and reply.status < 400 and reply.streams_events:
                    held_tokens = (self._held_tokens + self._guard.held.tokens) / 2
                    decoding_s = reply.drained_at - self._began - self._first_chunk_s
                    self._guard.decoded(held_tokens, decoding_s, reply.tail)
                if self._guard.answer_time is not None and reply.status < 400 and reply.broken is None:
                    self._guard.answer_time.took(reply.drained_at - self._slot_at)
            if reply is not None:
                self._ended(reply)
            await self._leave()
        finally:
            self._guard.give_slot(self._seat)

    async def _pass_again(self) -> None:
        """It has waited for its place, and the engine may have failed meanwhile."""
        try:
            await self._pass_gates(0.0)
        except BaseException:
            self._guard.give_slot(self._seat)
            raise

    async def _pass_gates(self, wait_s: float) -> None:
        for gate in _gates(self._guard.breaker.gate, self._limit.gate):
            if gate.kind is not None:
                entered = await self._guard.pass_through(gate, wait_s)
                if entered is not None:
                    self._entered.append((gate, entered))

    async def _begun(self) -> EngineReply:
        guard, limit = self._guard, self._limit
        limit.sent += 1
        self._sent = limit.sent
        try:
            context = guard.begin(self._request)
            reply = await context.__aenter__()
            self._context = context
            if reply.first is None:
                reply.first = await anext(reply.rest, b"")
            if reply.status in WORDED and guard.holds_key(self._request):
                await hold_error(reply)
            if self._entered:
                await _hold_until_data(reply)
        except BaseException as error:
            self._not_answered(error)
            await self._leave()
            if isinstance(error, StreamBroken):
                raise ConnectFailed(error.message, engine=error.engine, kind=Kind.BROKEN) from error
            raise
        try:
            self._answered(reply)
        except BaseException:
            await self._leave()
            raise
        return reply

    # ---- what becomes of it

    def _answered(self, reply: EngineReply) -> None:
        """Take note of an answer that began."""
        guard, status = self._guard, reply.status
        guard.told_left(self._limit.told(reply.headers, self._sent))
        if status < 400:
            if reply.streams_events and (not reply.first or begins_with_error(reply.first)):
                reply.kind = Kind.SERVER if reply.first else Kind.INVALID
                self._failed(reply.kind, status, self._words(reply))
                return
            self._limit.passed()
            if self._entered and (not reply.streams_events or holds_data(reply.first or b"")):
                self._succeeded()
            return
        says_when = (retry_after_s(reply.headers) or 0.0) > 0
        own_key = guard.holds_key(self._request)
        refusal = refusal_of(status, reply.first or b"", holds_key=own_key, says_when=says_when)
        kind = reply.kind = None if refusal is None else refusal.kind
        text = self._words(reply) if kind is not None else ""
        if kind is Kind.LIMITED:
            # An overload is everybody's, what a key has used up is that key's.
            limit = self._limit if status == 429 else guard.engine_limit
            gates = [entered for gate, entered in self._entered if gate is limit.gate]
            reply.limited_s = limit.met(reply.headers, gates[0] if gates else None)
            self._count(kind, status, text)
            self._succeeded()
        elif kind is Kind.SERVER:
            self._failed(kind, status, text)
        elif own_key and refusal is not None and refusal.lasts:
            self._count(refusal.kind, status, text)
            guard.breaker.refused(self._of_breaker())
            self._succeeded()
        else:
            if kind is not None:
                self._count(kind, status, text)
            guard.breaker.answered()
            self._succeeded()

    def _words(self, reply: EngineReply) -> str:
        return words_of(reply.first or b"") if self._guard.holds_key(self._request) else ""

    def _not_answered(self, error: BaseException) -> None:
        """Take note that no answer began."""
        # Unavailable: the engine itself says that it is not up. Anything but an EngineError: the client left.
        if isinstance(error, EngineError) and not isinstance(error, Unavailable):
            self._failed(error.kind, text=error.message)
        else:
            self._abandon()

    def _ended(self, reply: EngineReply) -> None:
        """Take note of how an answer ended that had begun well."""
        if reply.status >= 400 or reply.kind is not None:
            return
        if reply.broken is None and reply.drained_at is not None and (tail := reply.tail) is not None:
            if tail.failed():
                reply.broken = Kind.SERVER
            elif tail.cut(delimited=reply.self_delimiting):
                reply.broken = Kind.BROKEN
        if reply.broken is not None:
            self._failed(reply.broken, reply.status)
        elif reply.drained_at is not None:
            self._guard.breaker.answered()
            self._succeeded()
        else:
            self._abandon()

    def _failed(self, kind: Kind, status: int = 0, text: str = "") -> None:
        guard = self._guard
        guard.failed += 1
        self._count(kind, status, text)
        guard.breaker.failed(self._of_breaker())
        # A credential's own gate learns nothing from it.
        self._abandon()

    def _count(self, kind: Kind, status: int, text: str) -> None:
        self._guard.count(kind, status, text, time.monotonic() - self._slot_at)

    def _of_breaker(self) -> Pass | None:
        """The pass through the breaker's gate, taken out: it is decided there."""
        for entered in self._entered:
            if entered[0] is self._guard.breaker.gate:
                self._entered.remove(entered)
                return entered[1]
        return None

    def _succeeded(self) -> None:
        for gate, entered in self._entered:
            if gate is self._guard.breaker.gate:
                self._guard.breaker.probed(entered)
            else:
                entered.succeeded()
        self._entered.clear()

    def _abandon(self) -> None:
        for _, entered in self._entered:
            entered.abandoned()
        self._entered.clear()

    async def _leave(self) -> None:
        context, self._context = self._context, None
        if context is not None:
            await context.__aexit__(None, None, None)


def _gates(of_engine: Gate, of_limit: Gate) -> tuple[Gate, ...]:
    return (of_engine,) if of_limit is of_engine else (of_engine, of_limit)


def _opens_in_s(gate: Gate) -> float | None:
    """How long it is worth waiting for; None for what failed or refuses, until it is tested."""
    return gate.opens_in_s if gate.kind is Kind.LIMITED or gate.tested else None


async def _hold_until_data(reply: EngineReply) -> None:
    """Put all of a stream up to its first data into `first`, or all there is."""
    if reply.status >= 400 or not reply.streams_events:
        return
    held = reply.first or b""
    while not holds_data(held) and len(held) <= _HELD_BYTES:
        chunk = await anext(reply.rest, b"")
        if not chunk:
            break
        held += chunk
    reply.first = held
