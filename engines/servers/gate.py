"""A gate before an engine: shut for a while, then tried by one request, then entered in doubling steps by those who waited.

Refuses to know why it is shut, and what an answer means: engines.servers.breaker and engines.servers.limits tell it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from engines.errors import Kind

PROBE_S = 5.0
"""A probe that is not decided by then no longer keeps the next one out."""


class Gate:
    """Open until it is shut. Once its time has passed one request enters, the probe, and its outcome decides.

    A probe that succeeds opens it. While others wait, each success lets two of them in, so that a herd that waited does not
    fall upon an engine that has just come back.
    """

    __slots__ = (
        "_clock",
        "_room",
        "_since",
        "_spell",
        "_timer",
        "_told",
        "_undecided",
        "_until",
        "_waiting",
        "kind",
    )

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.kind: Kind | None = None
        """Why it is shut; None while it is open."""
        self._until = self._told = 0.0
        self._room = 1
        """How many may be inside undecided; more than one once the probe has succeeded."""
        self._undecided = 0
        self._since = 0.0
        """When somebody last entered, or was decided."""
        self._spell = 0
        self._waiting: deque[asyncio.Future[Pass | None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def lets_through(self) -> bool:
        """Tells whether the next request may enter now."""
        return self.kind is None or (not self.waiting and self._has_room(self._clock()))

    @property
    def tested(self) -> bool:
        """Shut, but its time has passed: a probe is under way, or due."""
        return self.kind is not None and self._clock() >= self._until

    @property
    def probing(self) -> bool:
        """Tells whether somebody is inside whose outcome decides."""
        return self.kind is not None and self._undecided > 0

    @property
    def opens_in_s(self) -> float:
        """Seconds until a probe may enter."""
        return max(0.0, self._until - self._clock()) if self.kind is not None else 0.0

    @property
    def retry_after_s(self) -> float:
        """Seconds until it may be open again, as far as anybody told."""
        return max(0.0, self._told - self._clock()) if self.kind is not None else 0.0

    @property
    def waiting(self) -> int:
        """How many wait to enter."""
        return sum(not place.done() for place in self._waiting) if self._waiting else 0

    def shut(self, kind: Kind, for_s: float, told_s: float | None = None) -> None:
        """Let nobody in for so long. `told_s`: where the upstream told of a longer time, and a probe asks before."""
        now = self._clock()
        self.kind, self._until, self._told = kind, now + for_s, now + (for_s if told_s is None else told_s)
        self._spell += 1
        self._room, self._undecided, self._since = 1, 0, now
        self._send_away()

    def test_now(self) -> None:
        """There is a sign that it may open: its time is over, and the next request is the probe."""
        if self.kind is not None and self.opens_in_s > 0:
            self._until = self._told = self._clock()
            self._let_in()

    def enter(self) -> Pass | None:
        """Enter, where it `lets_through`; None where it is open and nothing hangs on the outcome."""
        if self.kind is None:
            return None
        now = self._clock()
        self._undecided = self._inside(now) + 1
        self._since = now
        return Pass(self, self._spell)

    async def wait(self, at_most_s: float, *, for_time: bool) -> Pass | None:
        """Enter when it is one's turn. Raises TimeoutError where it is not within `at_most_s`, or cannot be.

        `for_time`: also wait until its time has passed, and not only while it is tested. Once the probe has succeeded the
        wait has no end but that of the queue.
        """
        loop = asyncio.get_running_loop()
        deadline = self._clock() + at_most_s
        while self.kind is not None:
            if self.lets_through:
                return self.enter()
            left_s, opens_in_s = deadline - self._clock(), self.opens_in_s
            if left_s <= 0 or opens_in_s > (left_s if for_time else 0.0):
                raise TimeoutError
            place: asyncio.Future[Pass | None] = loop.create_future()
            self._waiting.append(place)
            self._look_later(loop)
            late = loop.call_later(left_s, self._too_late, place)
            try:
                entered = await place
            except BaseException:
                if place.done() and not place.cancelled() and place.exception() is None:
                    # It was let in at the very moment it left.
                    entered = place.result()
                    if entered is not None:
                        entered.abandoned()
                raise
            finally:
                late.cancel()
            if entered is not None:
                return entered
        return None

    def _decided(self, spell: int, *, good: bool) -> None:
        if spell != self._spell:
            return
        self._undecided = max(0, self._undecided - 1)
        self._since = self._clock()
        self._room += good
        self._let_in()
        if good and not self.waiting:
            self.kind = None
            self._spell += 1
            self._forget_timer()

    def _inside(self, now: float) -> int:
        return 0 if now - self._since >= PROBE_S else self._undecided

    def _has_room(self, now: float) -> bool:
        return now >= self._until and self._inside(now) < self._room

    def _let_in(self) -> None:
        while self._waiting and self._has_room(self._clock()):
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(self.enter())
        if self._waiting:
            self._look_later(asyncio.get_running_loop())

    def _send_away(self) -> None:
        """Let all who wait look again whether it is worth it."""
        waiting, self._waiting = self._waiting, deque()
        for place in waiting:
            if not place.done():
                place.set_result(None)
        self._forget_timer()

    def _too_late(self, place: asyncio.Future[Pass | None]) -> None:
        if not place.done() and self._room == 1:
            place.set_exception(TimeoutError())

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look when the next of those who wait may enter: nobody else may come by to do so."""
        self._forget_timer()
        in_s = self.opens_in_s or max(0.0, self._since + PROBE_S - self._clock())
        self._timer = loop.call_later(in_s + 0.001, self._let_in)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Pass:
    """A request that entered a gate that was shut: what becomes of it decides. Told once; the gate is told otherwise of a
    failure, by being shut again."""

    __slots__ = ("_gate", "_spell")

    def __init__(self, gate: Gate, spell: int) -> None:
        self._gate = gate
        self._spell = spell

    @property
    def decides(self) -> bool:
        """Tells whether the gate still hangs on it."""
        return self._spell == self._gate._spell

    def succeeded(self) -> None:
        """The engine answered."""
        self._told(good=True)

    def abandoned(self) -> None:
        """It ended without an outcome: its client left."""
        self._told(good=False)

    def _told(self, *, good: bool) -> None:
        spell, self._spell = self._spell, -1
        self._gate._decided(spell, good=good)
