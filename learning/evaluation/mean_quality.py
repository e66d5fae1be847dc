"""The mean quality of answers and its interval, from sums alone: see store.decisions.quality_rollups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

from learning.evaluation.intervals import Interval, widened
from store.decisions.quality_rollups import QualitySums

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class MeanQuality:
    """A mean over answers of which each was picked with a known probability. Qualities lie between 0 and 1."""

    count: int
    """Judgements, feedback or reviews."""
    mean: float
    low: float
    """The lower end of the interval, of 95 % if no other level was asked for."""
    high: float
    error: float
    """Standard error of the mean; of single or equal values it says nothing, and is 0."""


def mean_quality(sums: Iterable[QualitySums], level: float = LEVEL) -> MeanQuality | None:
    """The mean weighted by inverse probabilities (Hájek 1971), its error by the delta method; None for no outcome.

    Where it rests on few samples, the interval is that of learning.evaluation.intervals.widened.
    """
    count, w, wq, ww, wwq, wwqq = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    for one in sums:
        count += one.outcomes
        w, wq = w + one.weight, wq + one.quality
        ww, wwq, wwqq = ww + one.weight_2, wwq + one.quality_2, wwqq + one.square_2
    if not count:
        return None
    mean = min(1.0, max(0.0, wq / w))
    error = max(0.0, wwqq - 2.0 * mean * wwq + mean * mean * ww) ** 0.5 / w
    # What is left of sums that cancel out is no spread.
    error = error if error > 1e-7 else 0.0
    z = _z(level)
    normal = Interval(mean - z * error, mean + z * error)
    low, high = widened(normal, mean, w * w / ww, (0.0, 1.0), level)
    return MeanQuality(count, mean, low, high, error)


@lru_cache(64)
def _z(level: float) -> float:
    return NormalDist().inv_cdf((1.0 + level) / 2.0)
