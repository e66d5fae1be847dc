"""The order in which waiting requests start: pure, and told the time.

First by class; among a class, the tenant that was served least; among its runs, the one with the least expected work
left; within a run, the step nearest to its start. Of the starts, every eighth goes to whoever has waited longest, once
that is long: so nobody starves, and a backlog of bulk work takes an eighth of the starts and no more.

Sources: classes and runs together from Parrot (OSDI 2024, section 5.4), which orders runs by arrival; least work left is
shortest remaining processing time (Schrage, 1968), for runs; tenants by the tokens they were served, from Sheng et al.,
"Fairness in Serving Large Language Models" (OSDI 2024), with the start tags of start-time fair queueing (Goyal et al.,
SIGCOMM 1996): who comes back is given no credit for having been away.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from engines.placement import Placement, Rank

What = TypeVar("What")

_TENANTS = 4096
"""Whose service is remembered, at most, but for those that wait."""
_GONE = 64


class Verdict(Enum):
    """The verdict on the request whose turn it is."""

    STARTS = "starts"
    WAITS = "waits"
    """It does not fit; another may."""
    FULL = "full"
    """Nor would any other."""


@dataclass(eq=False, slots=True)
class Waiting(Generic[What]):
    """One request in the line."""

    what: What
    """The owner's own."""
    placement: Placement
    tenant: str
    tokens: int
    """That it will hold in an engine: what its tenant is charged, and what the caps count."""
    since_s: float
    """When it came, by the clock that `take` is told."""
    to_compute_tokens: int = 0
    """Of its prompt, what is believed not to be cached where it starts."""
    number: int = field(default=-1, init=False)
    """In order of arrival, which it keeps where it has to wait again; -1 before it waited."""
    ticket: int = field(default=-1, init=False)
    """Of this time in the line; -1 while it does not wait."""

    @property
    def work_left(self) -> float:
        """Tokens of its whole run that are still to be computed."""
        return self.placement.work_left or float(self.tokens)


class Order(Generic[What]):
    """The requests that wait, and whose turn it is. Not for several threads.

    `promote_s`: what "long" is, in seconds. Putting one and taking one cost the logarithm of those waiting, and a look at
    each tenant that waits.
    """

    PROMOTED_EVERY = 8

    def __init__(self, promote_s: float = 30.0) -> None:
        self.promote_s = promote_s
        self._lanes: dict[Rank, dict[str, _Lane[What]]] = {rank: {} for rank in Rank}
        self._oldest: deque[tuple[int, Waiting[What]]] = deque()
        self._served: dict[str, float] = {}
        self._floor = 0.0
        """What the tenant that was last taken from had been served before: who comes anew begins there."""
        self._tickets = 0
        self._count = 0
        self._gone = 0
        """Those that left the line, or their place in it, and may still be found there."""
        self._since_promoted = 0
        """Starts since the last of one that had waited longest."""
        self.waiting: dict[Rank, int] = dict.fromkeys(Rank, 0)
        """How many wait, by class."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Waiting[What]]:
        """Those that wait, in the order in which they came."""
        return iter([one for ticket, one in self._oldest if one.ticket == ticket])

    def put(self, waiting: Waiting[What]) -> None:
        """Let it wait."""
        if self._gone > len(self) + _GONE:
            self._tidy()
        waiting.ticket = self._tickets
        self._tickets += 1
        if waiting.number < 0:
            waiting.number = waiting.ticket
        self.waiting[waiting.placement.rank] += 1
        self._count += 1
        if self._oldest and waiting.number < self._oldest[0][1].number:
            self._oldest.appendleft((waiting.ticket, waiting))
        else:
            self._oldest.append((waiting.ticket, waiting))
        self._served[waiting.tenant] = max(self._served.get(waiting.tenant, 0.0), self._floor)
        if len(self._served) > _TENANTS:
            self._forget_tenants()
        self._enqueue(waiting, told=True)

    def remove(self, waiting: Waiting[What]) -> bool:
        """It waits no longer; whether it did."""
        if waiting.ticket < 0:
            return False
        # Where it stood is found empty when its turn comes.
        waiting.ticket = -1
        self.waiting[waiting.placement.rank] -= 1
        self._count -= 1
        self._gone += 1
        if not len(self):
            self._clear()
        return True

    def change(self, waiting: Waiting[What], placement: Placement) -> None:
        """More is known of its run; it keeps the time since when it waits."""
        if waiting.ticket < 0 or waiting.placement == placement:
            return
        self.waiting[waiting.placement.rank] -= 1
        self.waiting[placement.rank] += 1
        waiting.placement = placement
        # Where it stood is found empty.
        self._gone += 1
        if self._gone > len(self) + _GONE:
            self._tidy()
        else:
            self._enqueue(waiting, told=True)

    def take(self, now_s: float, judge: Callable[[Waiting[What]], Verdict]) -> Waiting[What] | None:
        """The next to start, taken out; None where none may. `judge` is asked in order, until one starts or all is full.

        It may remove the one that it is asked about, and nothing else.
        """
        passed: list[Waiting[What]] = []
        promoted = self._promoted(now_s)
        try:
            if promoted is not None and (verdict := judge(promoted)) is not Verdict.WAITS:
                return self._started(promoted, promoted=True) if verdict is Verdict.STARTS else None
            while (one := self._pop()) is not None:
                verdict = Verdict.WAITS if one is promoted else judge(one)
                if verdict is Verdict.STARTS:
                    return self._started(one)
                passed.append(one)
                if verdict is Verdict.FULL:
                    break
            return None
        finally:
            for one in passed:
                if one.ticket >= 0:
                    self._enqueue(one, told=False)

    def _promoted(self, now_s: float) -> Waiting[What] | None:
        """The one that has waited longest, if that is long and it is their turn."""
        while self._oldest and self._oldest[0][1].ticket != self._oldest[0][0]:
            self._oldest.popleft()
        if self._since_promoted < self.PROMOTED_EVERY - 1 or not self._oldest:
            return None
        oldest = self._oldest[0][1]
        return oldest if now_s - oldest.since_s >= self.promote_s else None

    def _started(self, one: Waiting[What], *, promoted: bool = False) -> Waiting[What]:
        self._since_promoted = 0 if promoted else self._since_promoted + 1
        served = self._served[one.tenant]
        self._floor = max(self._floor, served)
        self._served[one.tenant] = served + one.tokens
        self.remove(one)
        return one

    def _forget_tenants(self) -> None:
        """Drop who does not wait; should they come back soon, they begin at the floor."""
        kept = {tenant for lanes in self._lanes.values() for tenant in lanes}
        kept.add(next(reversed(self._served)))
        self._served = {tenant: served for tenant, served in self._served.items() if tenant in kept}

    def _clear(self) -> None:
        """Nobody waits, and so nobody is behind."""
        for lanes in self._lanes.values():
            lanes.clear()
        self._oldest.clear()
        self._served.clear()
        self._floor = 0.0
        self._gone = self._since_promoted = 0

    def _tidy(self) -> None:
        """Drop what is still kept of those that have left the line, as clients that did not wait do."""
        for lanes in self._lanes.values():
            lanes.clear()
        self._oldest = deque((ticket, one) for ticket, one in self._oldest if one.ticket == ticket)
        for _, one in self._oldest:
            self._enqueue(one, told=True)
        self._gone = 0

    def _enqueue(self, one: Waiting[What], *, told: bool) -> None:
        """`told`: what it says of its run is news."""
        lanes = self._lanes[one.placement.rank]
        lane = lanes.get(one.tenant)
        if lane is None:
            lane = lanes[one.tenant] = _Lane()
        lane.put(one, told=told)

    def _pop(self) -> Waiting[What] | None:
        """The next in order, out of its lane but still waiting."""
        for lanes in self._lanes.values():
            while lanes:
                tenant = min(lanes, key=self._served.__getitem__)
                if (one := lanes[tenant].pop()) is not None:
                    return one
                del lanes[tenant]
        return None


class _Run(Generic[What]):
    """The waiting steps of one run, the least deep first."""

    __slots__ = ("first", "key", "queued", "steps", "work_left")

    def __init__(self, key: str, first: int) -> None:
        self.key = key
        self.first = first
        """The number of its first step here: runs with equally much left keep their order, and are not mixed."""
        self.work_left = 0.0
        self.queued: float | None = None
        """The work left that its place in the lane's heap was made for; None while it has none."""
        self.steps: list[tuple[int, int, int, int, Placement, Waiting[What]]] = []

    def next(self) -> Waiting[What] | None:
        """The first step, taken out; what has left the line or was given another placement is skipped."""
        while self.steps:
            *_, ticket, placement, one = heapq.heappop(self.steps)
            if one.ticket == ticket and one.placement is placement:
                return one
        return None


class _Lane(Generic[What]):
    """The waiting requests of one tenant in one class, by run."""

    __slots__ = ("_heap", "_pushes", "_runs")

    def __init__(self) -> None:
        self._runs: dict[str, _Run[What]] = {}
        self._heap: list[tuple[float, int, int, _Run[What]]] = []
        self._pushes = 0
        """Makes every tuple in the heaps differ before anything in it that has no order."""

    def put(self, one: Waiting[What], *, told: bool) -> None:
        placement = one.placement
        run = self._runs.get(placement.run) if placement.run else None
        if run is None:
            run, told = _Run(placement.run, one.number), True
            if placement.run:
                self._runs[placement.run] = run
        self._pushes += 1
        heapq.heappush(run.steps, (placement.depth, one.number, self._pushes, one.ticket, placement, one))
        if told:
            run.work_left = one.work_left
        if run.queued != run.work_left:
            run.queued = run.work_left
            heapq.heappush(self._heap, (run.work_left, run.first, self._pushes, run))

    def pop(self) -> Waiting[What] | None:
        while self._heap:
            work_left, _, _, run = self._heap[0]
            if work_left == run.queued:
                if (one := run.next()) is not None:
                    return one
                run.queued = None
                if self._runs.get(run.key) is run:
                    del self._runs[run.key]
            heapq.heappop(self._heap)
        return None
