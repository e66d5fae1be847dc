"""A circuit breaker: an engine that keeps failing is not asked for a while, then probed by one request."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum

from engines.errors import Unavailable


class State(Enum):
    """Whether requests pass."""

    CLOSED = "closed"
    """Requests pass."""
    OPEN = "open"
    """Requests are refused until `open_s` has passed."""
    PROBING = "probing"
    """One request was let through; its outcome decides."""


class Breaker:
    """Opens after `failures` consecutive failures, for `open_s` seconds."""

    def __init__(
        self,
        engine: str,
        *,
        failures: int,
        open_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._limit = failures
        self._open_s = open_s
        self._clock = clock
        self._failed = 0
        self._until = 0.0
        self.state = State.CLOSED

    @property
    def lets_through(self) -> bool:
        """Whether the next request would be let through; a breaker whose rest is over waits for one to probe with."""
        return self.state is State.CLOSED or (self.state is State.OPEN and self._clock() >= self._until)

    def admit(self) -> bool:
        """Let a request through; True if it is the probe. Raises Unavailable with how long to stay away."""
        if self.state is State.CLOSED:
            return False
        refusal = self.refusal()
        if refusal is not None:
            raise refusal
        self.state = State.PROBING
        return True

    def refusal(self) -> Unavailable | None:
        """Why no request would be let through now; None where one would."""
        if self.lets_through:
            return None
        wait_s = max(1.0, self._until - self._clock())
        return Unavailable(
            f"The engine '{self._engine}' keeps failing and is being left alone for {wait_s:.0f} s.",
            engine=self._engine,
            retry_after_s=wait_s,
        )

    def succeeded(self) -> None:
        """The engine answered."""
        self._failed = 0
        self.state = State.CLOSED

    def failed(self) -> None:
        """The engine did not answer, or answered that it is broken."""
        self._failed += 1
        if self.state is State.PROBING or self._failed >= self._limit:
            self.state = State.OPEN
            self._until = self._clock() + self._open_s

    def abandoned(self) -> None:
        """The probe ended without an outcome (its client left): the next request may probe."""
        if self.state is State.PROBING:
            self.state = State.OPEN
            self._until = self._clock()
