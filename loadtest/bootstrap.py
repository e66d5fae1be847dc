"""Confidence intervals of a comparison: percentile bootstrap over blocks of rounds.

Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13. Blocks (one round of each endpoint, back to back)
are resampled, because requests within a round are not independent. With few blocks a plain percentile interval is too
narrow; it is widened as in Hesterberg, What Teachers Should Know About the Bootstrap (2015), section 3.1 (expanded
percentiles). Below six blocks there is no interval: two equal endpoints would seem to differ too often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

MIN_BLOCKS = 6
_RESAMPLES = 10_000


@dataclass(frozen=True)
class Ratio:
    """A ratio to the baseline; `low` and `high` are its 95 % confidence interval (None with too few blocks)."""

    value: float
    low: float | None
    high: float | None

    @property
    def differs(self) -> bool:
        """Whether 1 lies outside the interval."""
        return self.low is not None and self.high is not None and not self.low <= 1.0 <= self.high


def expanded_tail(count: int) -> float:
    """The tail probability that makes a percentile interval over `count` values as wide as Student's t would.

    Student's quantile is Abramowitz and Stegun's expansion 26.7.5, good to 1 % from three degrees of freedom on.
    """
    z, free = NormalDist().inv_cdf(0.975), count - 1
    student = (
        z
        + (z**3 + z) / (4 * free)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * free**3)
    )
    return NormalDist().cdf(-math.sqrt(count / free) * student)


def ratio_of(baseline: Sequence[float], other: Sequence[float], seed: int = 0) -> Ratio | None:
    """Geometric mean of `other[k] / baseline[k]` over blocks; None if a figure is missing or not above 0."""
    before, after = np.asarray(baseline, dtype=float), np.asarray(other, dtype=float)
    if not len(before) or len(before) != len(after) or not ((before > 0).all() and (after > 0).all()):
        return None
    logs = np.log(after / before)
    value = float(np.exp(logs.mean()))
    if len(logs) < MIN_BLOCKS:
        return Ratio(value, None, None)
    picks = np.random.default_rng(seed).integers(0, len(logs), size=(_RESAMPLES, len(logs)))
    tail = expanded_tail(len(logs))
    low, high = np.exp(np.quantile(logs[picks].mean(axis=1), [tail, 1 - tail]))
    return Ratio(value, float(low), float(high))
