"""What a request has reserved of the limits of who sent it, and is settled by what it really used."""

from __future__ import annotations

from typing import Protocol


class Bill(Protocol):
    """One request's reservation. Settled exactly once; a second time changes nothing."""

    def settle(self, usd: float | None, tokens: int, *, estimated: bool = False) -> None:
        """What it used: dollars (None: it has no price), and tokens of prompt and answer. From any thread; never raises.

        `estimated`: nobody counted.
        """
        ...

    def settle_unknown(self, *, began: bool) -> None:
        """Nobody can say what it used. `began`: an answer was under way, so that all that was reserved may have been used; else
        what was asked. Flagged as estimated."""
        ...
