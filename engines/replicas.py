"""One engine behind several base URLs: each request goes to one of its replicas, and those that wait share one line.

Each replica has a guard of its own. A request goes where its client's session is, else where the most of its prompt is
believed to be cached (engines.prefixes), unless that replica is crowded; else where (in flight + 1) x recent answer time /
weight is least. Refuses to know who is asked when one fails: engines.candidates says where not to ask.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from engines.answer_times import AnswerTime, AnswerTimes
from engines.engine import Admission, EngineInfo, EngineLoad, EngineReply, EngineRequest
from engines.errors import EngineError, Kind, Unavailable
from engines.guard import Guard, GuardedStream
from engines.line import Line, Seat, prompt_tokens
from engines.pace import Pace
from engines.placing import Placing
from engines.prefixes import Prefix
from engines.sessions import Places, home, named_key

_GIVES_WAY = 4
"""In flight above its share: then a session, or a prompt that is cached there as a whole, goes elsewhere."""
_UNREACHED = frozenset({Kind.DNS, Kind.CONNECT, Kind.TIMEOUT_CONNECT})
"""After these a server has been down."""


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """One of them. `weight` 0: it is asked where no other may be."""

    guard: Guard
    weight: float = 1.0

    @property
    def name(self) -> str:
        """Its host and port."""
        return self.guard.info.replica


class Replicas:
    """An engine with several replicas; itself an Engine. Their guards share `line`, and are named apart."""

    def __init__(
        self, replicas: Sequence[Replica], line: Line, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._replicas = tuple(replicas)
        self.guards = tuple(one.guard for one in self._replicas)
        self.line = line
        self._times = AnswerTimes(clock)
        self._answer_times: dict[str, AnswerTime] = {}
        for one in self._replicas:
            one.guard.answer_time = self._answer_times[one.name] = self._times.another()
        self._pace = Pace()
        self._stored = Places()
        self.placing = Placing([one.name for one in self._replicas], line)
        names = tuple(one.name for one in self._replicas)
        holds_key = all(guard.info.holds_key for guard in self.guards)
        self._info = replace(self.guards[0].info, replica="", replicas=names, holds_key=holds_key)

    @property
    def info(self) -> EngineInfo:
        """See engines.engine.Engine. Its context window is the largest of theirs that was known when it was last asked."""
        return self._info

    def stream(self, request: EngineRequest) -> ReplicaStream:
        """See engines.engine.Engine.stream. Raises Unavailable when none of them is to be asked now."""
        windows = [tokens for guard in self.guards if (tokens := guard.info.context_tokens) is not None]
        if windows and max(windows) != self._info.context_tokens:
            self._info = replace(self._info, context_tokens=max(windows))
        return ReplicaStream(self, request)

    def admits(self, request: EngineRequest) -> Admission:
        """See Guard.admits: what holds for the best of them."""
        admitted, refused = self._admitted(request)
        if not admitted:
            return min(refused, key=_soonest) if refused else Admission(self._nobody())
        best = _best(admitted)
        has_place = not self.line.holds_back and any(one.guard.has_place for one in best)
        if self.line.full and not has_place and not request.is_step:
            return Admission(best[0].guard.full())
        return Admission(spared=all(spared for _, spared in admitted), others=len(admitted) - 1)

    def load(self) -> EngineLoad:
        """All of them together; times are means over those that are asked."""
        loads = [guard.load() for guard in self.guards]
        up = [load for load in loads if load.open] or loads
        return EngineLoad(
            in_flight=sum(load.in_flight for load in loads),
            queued=self.line.waiting + sum(load.queued for load in loads),
            capacity=sum(load.capacity or 0 for load in up) or None,
            kv_use=_mean([load.kv_use for load in up]),
            first_chunk_s=_mean([load.first_chunk_s for load in up]),
            idle_first_chunk_s=_mean([load.idle_first_chunk_s for load in up]),
            answer_s=_mean([load.answer_s for load in up]),
            answer_tokens=self._pace.answer_tokens,
            limit_left=_mean([load.limit_left for load in up]),
            open=any(load.open for load in loads),
        )

    def said(self, tokens: int) -> None:
        """Note how long an answer was, in tokens. From any thread."""
        self._pace.said(tokens)

    async def health(self) -> None:
        """See engines.engine.Engine.health: whether one of them lives. Raises the last one's EngineError."""
        found: EngineError | None = None
        for guard in self.guards:
            try:
                await guard.health()
            except EngineError as error:
                found = error
            else:
                return
        assert found is not None
        raise found

    async def count_tokens(self, what: str | Sequence[Mapping[str, Any]]) -> int | None:
        """See engines.engine.CountsTokens; by one of those that are up."""
        up = [guard for guard in self.guards if guard.breaker.gate.kind is None] or self.guards[:1]
        return await up[0].count_tokens(what)

    async def aclose(self) -> None:
        """Close all of them, also when one fails to."""
        errors: list[Exception] = []
        for guard in self.guards:
            try:
                await guard.aclose()
            except Exception as error:
                errors.append(error)
        if errors:
            raise ExceptionGroup("closing replicas", errors)

    # ---- what only the replica has that stored it

    def stored(self, tenant: str, name: str, replica: str) -> None:
        """Note that what has this id is at that replica."""
        self._stored.put(named_key(tenant, name), replica)

    def only_where_stored(self, tenant: str, name: str) -> frozenset[str]:
        """The replicas that a request must not be asked of which names this; where nobody knows, all but the first."""
        at = self._stored.get(named_key(tenant, name)) or self._replicas[0].name
        return frozenset(self._info.replicas) - {at}

    # ---- choosing: for ReplicaStream

    def seat(self, request: EngineRequest) -> Seat:
        """What a request takes of a place."""
        return self.line.seat(request, self._pace.answer_tokens)

    def place(
        self, request: EngineRequest, seat: Seat | None = None, prefixes: Sequence[Prefix] = ()
    ) -> Guard | None:
        """A replica that has a place, which is taken; None where one must be waited for. Raises Unavailable.

        Without a `seat` its tokens are not counted.
        """
        eligible = self._eligible(request)
        if not eligible:
            raise self.refusal(request)
        if seat is not None and request.is_step:
            placed = self.placing.place(seat, prefixes, eligible)
            return placed.guard if placed is not None else None
        free = [one for one in eligible if one.guard.has_place and not self.line.keeps(one.guard)]
        with_place = [one for one in free if one.guard.fits(seat)]
        if not with_place:
            if free:
                self.line.keep(min(free, key=_held_tokens).guard)
            return None
        chosen = self._chosen(request, seat, prefixes, eligible, with_place)
        self.placing.sent(chosen.name, prefixes, self._pace.answer_tokens or 0.0)
        chosen.guard.took_slot(seat)
        return chosen.guard

    def opens_soon(self, request: EngineRequest) -> Guard | None:
        """Where none may be asked now: the one that is worth waiting for; None where none is."""
        soon = [
            (now.opens_in_s, at, one.guard)
            for at, one in enumerate(self._replicas)
            if one.name not in request.not_at
            and (now := one.guard.lets(request)).opens_in_s is not None
            and now.opens_in_s <= request.wait_s
        ]
        return min(soon)[2] if soon else None

    def refusal(self, request: EngineRequest) -> Unavailable:
        """Why none of them may be asked now."""
        return self.admits(request).refusal or self._nobody()

    def _admitted(self, request: EngineRequest) -> tuple[list[tuple[Replica, bool]], list[Admission]]:
        """Those that may be asked, with whether they are to be spared; and why the others may not."""
        admitted, refused = [], []
        for one in self._replicas:
            if one.name in request.not_at:
                continue
            now = one.guard.lets(request)
            if now.refusal is None:
                admitted.append((one, now.spared))
            else:
                refused.append(now)
        return admitted, refused

    def _eligible(self, request: EngineRequest) -> list[Replica]:
        """The best of those that may be asked."""
        admitted, _ = self._admitted(request)
        return _best(admitted) if admitted else []

    def _chosen(
        self,
        request: EngineRequest,
        seat: Seat | None,
        prefixes: Sequence[Prefix],
        eligible: Sequence[Replica],
        with_place: Sequence[Replica],
    ) -> Replica:
        if len(with_place) == 1:
            return with_place[0]
        if request.session:
            key = named_key(request.tenant, request.session)
            wanted = home(key, {one.name: one.weight or 1.0 for one in eligible})
            room = float(_GIVES_WAY)
        else:
            wanted, found = self.placing.warmest(prefixes, eligible)
            # A replica that would save a tenth of the prompt is worth a tenth of the wait.
            room = _GIVES_WAY * found
        for one in with_place:
            if one.name == wanted and not _crowded(one, eligible, room):
                return one
        capped = any(one.guard.held.caps.latency_tokens is not None for one in with_place)
        if capped and seat is not None and request.chat is not None:
            return self.placing.least(seat, prompt_tokens(request.chat), with_place)
        return min(with_place, key=self._weighed)

    def _weighed(self, one: Replica) -> tuple[float, int]:
        guard = one.guard
        expected_s = self._answer_times[one.name].seconds(self._times.mean_s, busy=guard.busy)
        return (guard.in_flight + 1) * expected_s / (one.weight or 1.0), guard.asked

    def _nobody(self) -> Unavailable:
        name = self._info.name
        return Unavailable(f"No other replica of the engine '{name}' may be asked.", engine=name)


class ReplicaStream:
    """One request to one of the replicas: the context manager that Replicas.stream returns."""

    __slots__ = ("_inner", "_prefixes", "_replicas", "_request", "_seat", "_taken")

    def __init__(self, replicas: Replicas, request: EngineRequest) -> None:
        self._replicas = replicas
        self._request = request
        self._inner: GuardedStream | None = None
        self._taken: Guard | None = None
        """Where a place was taken for it."""
        self._seat: Seat | None = None
        self._prefixes: tuple[Prefix, ...] = ()

    async def __aenter__(self) -> EngineReply:
        """Ask one of them, once it may be asked; return when its answer has begun. Raises EngineError."""
        replicas = self._replicas
        inner = self._inner = await self._placed()
        try:
            reply = await inner.__aenter__()
        except EngineError as error:
            error.replica = inner.replica
            if error.kind in _UNREACHED:
                replicas.placing.lost(inner.replica)
            raise
        reply.replica = inner.replica
        return reply

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._inner is not None
        await self._inner.__aexit__(kind, error, trace)

    async def _placed(self) -> GuardedStream:
        """The asking of one that has a place for it. Raises Unavailable."""
        replicas, request, line = self._replicas, self._request, self._replicas.line
        began = time.monotonic()
        self._prefixes = await replicas.placing.prefixes(request)
        if request.is_step:
            line.counts = True
        if line.counts:
            self._seat = replicas.seat(request)
        line.look()
        try:
            placed = not line.holds_back and self._take()
        except Unavailable:
            soon = replicas.opens_soon(request)
            if soon is None:
                raise
            return soon.stream(request)
        if not placed and line.full and not request.is_step:
            raise replicas.refusal(request)
        waits = None if placed else self._seat or replicas.seat(request)
        while not placed:
            assert waits is not None
            await line.wait(waits, self._take, self._give_back)
            assert self._taken is not None
            placed = self._taken.lets(request).admitted
            if not placed:
                # It failed between the two.
                self._give_back()
                placed = self._take()
        assert self._taken is not None
        return GuardedStream(self._taken, request, began, self._seat)

    def _take(self) -> bool:
        self._taken = self._replicas.place(self._request, self._seat, self._prefixes)
        return self._taken is not None

    def _give_back(self) -> None:
        assert self._taken is not None
        self._taken.give_slot(self._seat)


def _best(admitted: Sequence[tuple[Replica, bool]]) -> list[Replica]:
    """Who is to be spared, or stands by, is asked only where there is no other."""
    best = min((spared, one.weight == 0) for one, spared in admitted)
    return [one for one, spared in admitted if (spared, one.weight == 0) == best]


def _crowded(one: Replica, eligible: Sequence[Replica], room: float) -> bool:
    """Whether it has more than `room` requests under way above its share."""
    in_flight = sum(other.guard.in_flight for other in eligible)
    weights = sum(other.weight for other in eligible)
    share = one.weight / weights if weights else 1 / len(eligible)
    return one.guard.in_flight >= in_flight * share + room


def _held_tokens(one: Replica) -> int:
    return one.guard.held.tokens


def _soonest(refused: Admission) -> float:
    """Seconds until it may be asked again, as far as is known."""
    if refused.opens_in_s is not None:
        return refused.opens_in_s
    assert refused.refusal is not None
    return 1e6 + (refused.refusal.retry_after_s or 0.0)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
