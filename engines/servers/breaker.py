"""A circuit breaker: an engine that keeps failing, or refuses us, is left alone for a while, then probed by one request."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum

from engines.errors import Kind
from engines.servers.gate import Gate, Pass

_REFUSED_S = 60.0
_REFUSED_MOST_S = 600.0


class State(Enum):
    """Tells whether requests pass."""

    CLOSED = "closed"
    """Requests pass."""
    OPEN = "open"
    """Requests are refused for a while."""
    PROBING = "probing"
    """One request was let through, and more follow as it succeeds."""
    LIMITED = "limited"
    """Its rate limit is used up."""
    REFUSED = "refused"
    """It refuses the gateway's key, or does not have the model."""


_STATES = {Kind.LIMITED: State.LIMITED, Kind.REFUSED: State.REFUSED}


class Breaker:
    """Opens after `failures` consecutive failures, for `open_s` seconds; after as many refusals for a minute,
    doubling to ten.

    `alarm` is called once when it begins to refuse, and not again before the engine has answered.
    """

    def __init__(
        self,
        *,
        failures: int,
        open_s: float,
        clock: Callable[[], float] = time.monotonic,
        alarm: Callable[[], None] = lambda: None,
    ) -> None:
        self._limit = failures
        self._open_s = open_s
        self._alarm = alarm
        self._failed = self._refused = self._refused_spells = 0
        self.gate = Gate(clock)
        """Where requests pass, or wait. Rate limits shut it, too."""

    @property
    def state(self) -> State:
        """For people to read."""
        kind = self.gate.kind
        if kind is None:
            return State.CLOSED
        return State.PROBING if self.gate.probing else _STATES.get(kind, State.OPEN)

    def answered(self) -> None:
        """The engine gave a whole answer, or refused a request that was wrong.

        If it is left alone for failures by now, it was asked before them and lives: it turned others away because it had
        too many, say. The next request is the probe.
        """
        self._failed = self._refused = self._refused_spells = 0
        if self.gate.kind is Kind.OPEN:
            self.gate.test_now()

    def probed(self, entered: Pass) -> None:
        """A request that entered while it was shut has begun to be answered. It is not believed yet: one more failure, and
        the engine is left alone again."""
        if entered.decides and self.gate.kind is Kind.OPEN:
            self._failed = max(self._failed, self._limit - 1)
        entered.succeeded()

    def failed(self, entered: Pass | None = None) -> None:
        """The engine did not answer, or answered that it is broken, or its answer was none."""
        self._failed += 1
        self._refused = 0
        if self._decides(entered) or (self.gate.kind is None and self._failed >= self._limit):
            self.gate.shut(Kind.OPEN, self._open_s)

    def refused(self, entered: Pass | None = None) -> None:
        """The engine refused the gateway's key, or said that its model is gone."""
        self._failed = 0
        self._refused += 1
        again = self._decides(entered) and self.gate.kind is Kind.REFUSED
        if again or (self.gate.kind is None and self._refused >= self._limit):
            self.gate.shut(Kind.REFUSED, min(_REFUSED_MOST_S, _REFUSED_S * 2**self._refused_spells))
            self._refused_spells += 1
            if self._refused_spells == 1:
                self._alarm()
        elif entered is not None:
            entered.succeeded()

    @staticmethod
    def _decides(entered: Pass | None) -> bool:
        return entered is not None and entered.decides
