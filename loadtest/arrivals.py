"""When requests are due: an endless, repeatable sequence of times, independent of any answer.

Ramp, step and burst are Poisson processes whose rate changes over time, drawn by inverting the cumulative rate (the
time-change theorem; Cinlar, Introduction to Stochastic Processes, 1975, section 4.7). What is sent is decided elsewhere.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

KINDS = ("poisson", "constant", "ramp", "step", "burst", "trace")


@dataclass(frozen=True)
class Arrivals:
    """The shape of the arrivals: rates in requests/s, times in s.

    ramp: `rate` to `rate_to` over `span_s`, then flat. step: from `rate` to `rate_to` in `steps` equal rises over `span_s`.
    burst: `rate`, with `rate_to` during the first `burst_s` of every `every_s`.
    """

    kind: str = "poisson"
    rate: float = 5.0
    rate_to: float = 0.0
    span_s: float = 30.0
    steps: int = 5
    every_s: float = 10.0
    burst_s: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind!r} is not a kind of arrivals: choose one of {', '.join(KINDS)}")
        if self.kind != "trace" and not (
            self.rate > 0 or (self.kind in ("ramp", "burst") and self.rate >= 0)
        ):
            raise ValueError(f"the rate must be above 0 requests/s, got {self.rate:g}")
        if self.kind in ("ramp", "step", "burst") and self.rate_to <= 0:
            raise ValueError(
                f"{self.kind} arrivals need a second rate above 0 (--rate-to), got {self.rate_to:g}"
            )
        if self.kind == "burst" and not 0 < self.burst_s < self.every_s:
            raise ValueError(
                f"a burst of {self.burst_s:g} s does not fit into a period of {self.every_s:g} s"
            )
        if self.kind == "step" and self.steps < 2:
            raise ValueError(f"step arrivals need at least 2 steps, got {self.steps}")

    def instants(self, seed: int) -> Iterator[float]:
        """Seconds after the start, ascending, without end; the same for the same seed in every process."""
        rng = random.Random(seed)

        def draw() -> float:
            return 1.0 if self.kind == "constant" else -math.log(1.0 - rng.random())

        mass = 0.0  # expected arrivals before the current segment
        area = draw()
        for start_s, length_s, low, high in self._segments():
            total = length_s * (low + high) / 2 if length_s != math.inf else math.inf
            while area - mass <= total:
                yield start_s + _invert(area - mass, length_s, low, high)
                area += draw()
            mass += total

    def _segments(self) -> Iterator[tuple[float, float, float, float]]:
        """(start s, length s, rate at the start, rate at the end), one after the other."""
        if self.kind in ("poisson", "constant"):
            yield 0.0, math.inf, self.rate, self.rate
        elif self.kind == "ramp":
            yield 0.0, self.span_s, self.rate, self.rate_to
            yield self.span_s, math.inf, self.rate_to, self.rate_to
        elif self.kind == "step":
            length_s = self.span_s / self.steps
            for k in range(self.steps):
                rate = self.rate + (self.rate_to - self.rate) * k / (self.steps - 1)
                last = k == self.steps - 1
                yield k * length_s, math.inf if last else length_s, rate, rate
        elif self.kind == "burst":
            period = 0
            while True:
                start_s = period * self.every_s
                yield start_s, self.burst_s, self.rate_to, self.rate_to
                yield start_s + self.burst_s, self.every_s - self.burst_s, self.rate, self.rate
                period += 1


def _invert(area: float, length_s: float, low: float, high: float) -> float:
    """The time after which a rate changing linearly from `low` to `high` has produced `area` arrivals."""
    if low == high or length_s == math.inf:
        return area / low if low else length_s
    slope = (high - low) / length_s
    # The stable form of the quadratic's root: it also works where the slope is nearly 0.
    return 2 * area / (low + math.sqrt(max(0.0, low * low + 2 * slope * area)))
