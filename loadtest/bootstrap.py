"""How sure a comparison may be: percentile bootstrap over blocks of rounds.

Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13. The unit that is resampled is the block (one round
of each endpoint, back to back), because requests within a round are not independent of each other. With few blocks the
interval is somewhat too narrow; below four it is not given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MIN_BLOCKS = 4
_RESAMPLES = 10_000


@dataclass(frozen=True)
class Ratio:
    """How many times as large; `low` and `high` bound it with 95 % confidence (None with too few blocks)."""

    value: float
    low: float | None
    high: float | None

    @property
    def differs(self) -> bool:
        """Whether "no difference" lies outside the interval."""
        return self.low is not None and self.high is not None and not self.low <= 1.0 <= self.high


def ratio_of(baseline: Sequence[float], other: Sequence[float], seed: int = 0) -> Ratio | None:
    """Geometric mean of `other[k] / baseline[k]` over blocks; None where a figure is missing or not above 0."""
    before, after = np.asarray(baseline, dtype=float), np.asarray(other, dtype=float)
    if not len(before) or len(before) != len(after) or not ((before > 0).all() and (after > 0).all()):
        return None
    logs = np.log(after / before)
    value = float(np.exp(logs.mean()))
    if len(logs) < MIN_BLOCKS:
        return Ratio(value, None, None)
    picks = np.random.default_rng(seed).integers(0, len(logs), size=(_RESAMPLES, len(logs)))
    low, high = np.exp(np.percentile(logs[picks].mean(axis=1), [2.5, 97.5]))
    return Ratio(value, float(low), float(high))
