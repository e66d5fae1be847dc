"""The few dials of deciding that may be turned while requests are being answered."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Dials:
    """None leaves a dial as it was configured."""

    preference: float | None = None
    """0 (cheapest) to 1 (best), for requests and keys that have none of their own."""
    theta: float | None = None
    """Cosine from which a past request is near: the rule, until a router was learnt."""
    m: int | None = None
    """How many near ones the rule wants."""
    max_examples: int | None = None
    """Most examples that are sent along."""

    def turned(self) -> dict[str, float | int]:
        """Those that are turned, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}
