"""One server of an engine: it tells whether it may be asked now, and when next, and keeps what was found out about it.

Operators drain it; failures, refusals and rate limits shut its gates; its places and its tokens bound what is under way. It
knows no other server but for the line that they share (choosing.py chooses).
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from engines.answers.tail import Tail
from engines.engine import ADMITTED, Admission, Engine, EngineInfo, EngineLoad, EngineRequest, Starts
from engines.errors import EngineError, Kind, RateLimited, Unavailable
from engines.servers.breaker import Breaker
from engines.servers.caps import Caps, Held
from engines.servers.decoding_curve import DecodingCurve
from engines.servers.gate import Gate, Pass
from engines.servers.limits import Credentials, RateLimit, with_jitter
from engines.servers.line import Line, Seat
from engines.servers.pace import AnswerTime, Pace
from engines.servers.standing import Since, Standing
from engines.translating import Translating

_DRAINED_RETRY_S = 10.0
_LIMIT_FRESH_S = 60.0
"""Upstreams tell what is left of a minute's rate limit: an older figure means nothing."""
_DECODED_TOKENS = 16
"""A shorter answer tells little of the time that a token takes."""
_STANDINGS = {Kind.OPEN: Standing.DOWN, Kind.REFUSED: Standing.REFUSED, Kind.LIMITED: Standing.LIMITED}


@dataclass(frozen=True, slots=True)
class Limits:
    """How many requests a server is sent at once, and how many more may wait for any of its engine's servers."""

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
    """The latest failure of a server."""

    kind: Kind
    status: int
    """Of the answer; 0 where there was none."""
    at_s: float
    """Unix time."""
    text: str = ""
    """In words, which may quote the server's answer; empty where that may hold a client's own key."""

    @property
    def told(self) -> str:
        """All of it in one line."""
        what = f"{self.kind} {self.status}" if self.status else f"{self.kind}"
        return f"{what}: {' '.join(self.text.split())}" if self.text else what


class Probe(NamedTuple):
    """The latest health check of a server."""

    at_s: float
    """Unix time at its end."""
    seconds: float
    """How long it took."""
    error: str = ""
    """In words; empty: it was good."""


class Server:
    """See the module. `engine` asks it; `weight` is its share beside the others: 0 is asked where no other may be.

    `credentials`: the rate limits of the clients' own keys, where it is sent those; None where the gateway holds the key,
    and its limits and refusals are everybody's. `translating`: asks it in APIs that it does not speak; None: nobody does.
    """

    line: Line
    """Where requests wait for it; the list of servers gives it."""

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        breaker: Breaker,
        credentials: Credentials | None = None,
        weight: float = 1.0,
        translating: Translating | None = None,
    ) -> None:
        self.engine = engine
        self.translating = translating
        self.limits = limits
        self.breaker = breaker
        self.engine_limit = RateLimit(breaker.gate)
        self._credentials = credentials
        self.weight = weight
        self.name = engine.info.replica
        """Its host and port; empty where its engine has one base URL."""
        self.held = Held(limits.caps)
        """The tokens under way here, where the line counts them."""
        self._curve = None if limits.slo_tpot_ms is None else DecodingCurve()
        self.in_flight = 0
        """Requests that have a place here."""
        self.answer_time: AnswerTime | None = None
        """Beside those of the other servers; None where nobody chooses by it."""
        self.pace = Pace()
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

    def stands_behind(self, line: Line) -> None:
        """Its requests wait in this line from now on."""
        self.line = line
        line.serves(self)
        if self._curve is not None:
            line.counts = True

    @property
    def info(self) -> EngineInfo:
        """See engines.engine.Engine."""
        return self.engine.info

    # ---- whether it may be asked now

    def lets(self, request: EngineRequest) -> Admission:
        """Tells whether `request` may be sent to it now, be there a place or not. Counts those that it turns away."""
        if self.drained:
            return Admission(self._drained())
        limit = self.rate_limit(request)
        for gate in (self.breaker.gate, limit.gate):
            if gate.kind is not None and not gate.lets_through:
                self.turned_away += 1
                return Admission(self._refusal(gate), opens_in_s=_opens_in_s(gate))
        return Admission(spared=True) if limit.spares(request) else ADMITTED

    def rate_limit(self, request: EngineRequest) -> RateLimit:
        """The rate limit that a request falls under."""
        if request.tenant in self.own_keys:
            return self._own_limits.setdefault(request.tenant, RateLimit(Gate()))
        return self.engine_limit if self._credentials is None else self._credentials.of(request)

    def holds_key(self, request: EngineRequest) -> bool:
        """Tells whether the gateway's own key is sent, or none: then a refusal is the gateway's problem."""
        return self.info.holds_key and request.tenant not in self.own_keys

    async def pass_through(self, gate: Gate, wait_s: float) -> Pass | None:
        """Enter a gate that is shut, after `wait_s` at most. Raises Unavailable."""
        if not gate.lets_through:
            self.turned_away += 1
            if wait_s <= 0 or gate.waiting + self.line.waiting >= self.line.most:
                raise self._refusal(gate)
            try:
                return await gate.wait(with_jitter(wait_s), for_time=gate.kind is Kind.LIMITED)
            except TimeoutError:
                raise self._refusal(gate) from None
        return gate.enter()

    def _refusal(self, gate: Gate) -> Unavailable:
        name = self.info.name
        # At least a second: a probe is under way, or due.
        wait_s = max(1.0, gate.retry_after_s)
        if gate.kind is Kind.LIMITED:
            text = f"The engine '{name}' is at its rate limit for another {wait_s:.0f} s."
            return RateLimited(text, engine=name, retry_after_s=wait_s)
        why = "refuses the gateway's key or model" if gate.kind is Kind.REFUSED else "keeps failing"
        text = f"The engine '{name}' {why} and is being left alone for {wait_s:.0f} s."
        return Unavailable(text, engine=name, kind=gate.kind, retry_after_s=wait_s)

    def _drained(self) -> Unavailable:
        name = self.info.name
        text = f"The engine '{name}' is drained: its operator wants nothing new asked of it."
        return Unavailable(text, engine=name, retry_after_s=_DRAINED_RETRY_S)

    def full(self) -> Unavailable:
        """Why nobody else may wait."""
        name, waiting = self.info.name, self.line.waiting
        most = self.limits.max_in_flight
        text = f"The engine '{name}' is at its limit of {most} requests, and {waiting} more are waiting."
        return Unavailable(text, engine=name, kind=Kind.FULL, retry_after_s=1)

    # ---- places

    @property
    def has_place(self) -> bool:
        """See engines.servers.line.Place."""
        return self.in_flight < self.limits.max_in_flight

    def fits(self, seat: Seat | None) -> bool:
        """Tells whether its caps leave room for a request."""
        return seat is None or self.held.fits(seat.placement.rank, seat.tokens)

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
        waits = seat or line.seat(request)
        await line.wait(waits, lambda: self.took_slot(seat), lambda: self.give_slot(seat))
        return True

    def took_slot(self, seat: Seat | None = None) -> bool:
        """Take a place, where there is one. None: its tokens are not counted."""
        if self.in_flight >= self.limits.max_in_flight:
            return False
        if seat is not None:
            if not self.fits(seat):
                self.line.keep(self)
                return False
            self.held.enters(seat.placement.rank, seat.tokens, seat.to_compute_tokens)
        self.in_flight += 1
        return True

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

    def decoded(self, held_tokens: float, seconds: float, tail: Tail | None) -> None:
        """An answer took so long after its first piece. With an SLO that decides what may be under way."""
        if self._curve is None or tail is None or (tokens := tail.output_tokens()) is None:
            return
        if tokens < _DECODED_TOKENS:
            return
        self._curve.measured(held_tokens, seconds / (tokens - 1))
        limits = self.limits
        most = self._curve.most_tokens((limits.slo_tpot_ms or 0.0) / 1000)
        allowed = [cap for cap in (most, limits.latency_tokens_in_flight) if cap is not None]
        self.held.caps = Caps(limits.tokens_in_flight, min(allowed, default=None))

    # ---- how it stands

    def load(self) -> EngineLoad:
        """Sums up what passes through here, and what the server says of itself. A line that several share is not counted."""
        inner = self.engine.load()
        fresh = time.monotonic() - self._limit_told < _LIMIT_FRESH_S
        pace = self.pace
        return EngineLoad(
            # What waits inside the server came through here too: it must not count twice.
            in_flight=max(self.in_flight - inner.queued, inner.in_flight),
            queued=inner.queued + (0 if self.line.shared else self.line.waiting),
            capacity=inner.capacity or self.limits.max_in_flight,
            kv_use=inner.kv_use,
            kv_tokens=inner.kv_tokens,
            first_chunk_s=pace.first_chunk_s,
            idle_first_chunk_s=pace.idle_first_chunk_s,
            answer_s=pace.answer_s,
            answer_tokens=self.line.answer_tokens,
            limit_left=self._limit_left if fresh else None,
            open=inner.open and self.breaker.gate.lets_through and not self.drained,
        )

    def since(self) -> Since:
        """Its state, and since when. The same object while nothing changes."""
        self._since = self._since.now(self._standing())
        return self._since

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
        """See engines.engine.Starts; None of one that is brought up elsewhere."""
        return self.engine.problem if isinstance(self.engine, Starts) else None

    @property
    def busy(self) -> bool:
        """Tells whether requests are under way there."""
        return self.in_flight > 0

    # ---- what was found out

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


def _opens_in_s(gate: Gate) -> float | None:
    """How long it is worth waiting for; None for what failed or refuses, until it is tested."""
    return gate.opens_in_s if gate.kind is Kind.LIMITED or gate.tested else None
