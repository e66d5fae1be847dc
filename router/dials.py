"""The router's settings that an operator may change while requests are being answered."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Dials:
    """Values that replace configured ones; None leaves a setting as it was configured."""

    preference: float | None = None
    """0 (cheapest) to 1 (best quality), for requests and keys that set no preference of their own."""
    theta: float | None = None
    """Cosine from which a past request counts as near, for the rule that decides until a bandit has learnt enough."""
    m: int | None = None
    """Number of near past requests that this rule needs."""
    max_examples: int | None = None
    """Largest number of examples that are sent."""

    def turned(self) -> dict[str, float | int]:
        """The values that are set, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}
