"""Settles what a request has reserved of its sender's limits by what it really used."""

from __future__ import annotations

from typing import Protocol

from engines.chat import Usage


class Bill(Protocol):
    """One request's reservation. What is settled first counts. From any thread; never raises."""

    def settle(self, usd: float | None, usage: Usage | None) -> None:
        """Settle what it used; `usd` None: it has no price; `usage` None: no engine's answer was used."""
        ...

    def settle_unknown(self, *, began: bool) -> None:
        """Nobody can say what it used, so it is estimated. `began`: an answer was under way, and all that was reserved may
        have been used; else what was asked."""
        ...
