"""Distributions as short texts, such as `lognormal:120,0.6`, for lengths and for delays.

    fixed:X (or just X) · uniform:LOW,HIGH · normal:MEAN,SD · lognormal:MEDIAN,SIGMA · exp:MEAN

Draws are never negative.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

_ARITY = {"fixed": 1, "uniform": 2, "normal": 2, "lognormal": 2, "exp": 1}


@dataclass(frozen=True)
class Distribution:
    """A kind of distribution with its one or two parameters."""

    kind: str
    first: float
    second: float = 0.0

    def draw(self, rng: random.Random) -> float:
        """One value >= 0."""
        if self.kind == "fixed":
            return self.first
        if self.kind == "uniform":
            return rng.uniform(self.first, self.second)
        if self.kind == "normal":
            return max(0.0, rng.gauss(self.first, self.second))
        if self.kind == "lognormal":
            return self.first * math.exp(self.second * rng.gauss(0.0, 1.0))
        return rng.expovariate(1.0 / self.first) if self.first else 0.0

    def draw_count(self, rng: random.Random) -> int:
        """One whole number >= 1."""
        return max(1, round(self.draw(rng)))

    def __str__(self) -> str:
        numbers = [self.first, self.second][: _ARITY[self.kind]]
        return f"{self.kind}:{','.join(f'{n:g}' for n in numbers)}"


def parse_distribution(text: str) -> Distribution:
    """Reads `kind:a,b` or a bare number.

    Raises ValueError naming the text and what would be right.
    """
    kind, colon, rest = text.strip().partition(":")
    if not colon:
        kind, rest = "fixed", kind
    wanted = _ARITY.get(kind)
    try:
        numbers = [float(part) for part in rest.split(",")]
    except ValueError:
        numbers = []
    if wanted is None or len(numbers) != wanted or any(n < 0 or not math.isfinite(n) for n in numbers):
        raise ValueError(
            f"{text!r} is not a distribution: write a number, fixed:X, uniform:LOW,HIGH, normal:MEAN,SD,"
            " lognormal:MEDIAN,SIGMA or exp:MEAN (none negative)"
        )
    if kind == "uniform" and numbers[1] < numbers[0]:
        raise ValueError(f"{text!r}: the second number of uniform must not be below the first")
    return Distribution(kind, *numbers)
