"""Bootstrap intervals for means and ratios of means over requests, with all resamples in one matrix product.

Studentised (bootstrap-t): each resample's distance is measured in its own standard error, which follows skewed weights where
percentiles do not. Where only few samples were seen, resampling them underestimates the uncertainty: see `widened`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

FEW = 100.0
"""Effective number of samples below which an interval is widened to the binomial one."""
_AT_ONCE = 2_000_000
"""Random numbers drawn at once: 16 MB."""


class Interval(NamedTuple):
    """A closed interval."""

    low: float
    high: float


class Told(NamedTuple):
    """An estimate and its interval."""

    value: float
    """nan if it is unknown."""
    low: float
    high: float

    @property
    def interval(self) -> Interval:
        """The interval alone."""
        return Interval(self.low, self.high)


class Ratio(NamedTuple):
    """mean(above) / mean(below), both [n]; for a plain mean `below` is all ones."""

    above: Floats
    below: Floats


def bootstrap(
    ratios: Sequence[Ratio], *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> list[tuple[float, Interval]]:
    """Each ratio's value and its interval, from the same resamples of the n requests.

    (nan, -inf to inf) where `below` is all zeros; an interval of width 0 if no resample differs. Efron & Tibshirani
    1993, "An introduction to the bootstrap", section 12.5; the standard error of a ratio by the delta method.

    Raises ValueError for an empty log, a level outside (0, 1), or fewer than 100 resamples, which say nothing of the tails.
    """
    n = len(ratios[0].above)
    if n < 1 or resamples < 100 or not 0.0 < level < 1.0:
        raise ValueError(
            f"{n} requests, {resamples} resamples, level {level}: at least 1 and 100 are needed, and 0..1"
        )
    columns = np.concatenate([_moments(ratio) for ratio in ratios], axis=1)
    value, error = _values_and_errors(np.ones((1, n)), columns)
    drawn = [_values_and_errors(counts, columns) for counts in _counts(n, resamples, seed)]
    values = np.concatenate([each for each, _ in drawn])
    errors = np.concatenate([each for _, each in drawn])
    return [
        _interval(value[0, k], error[0, k], values[:, k], errors[:, k], level) for k in range(len(ratios))
    ]


def widened(
    interval: Interval,
    mean: float,
    samples: float,
    bounds: tuple[float, float],
    level: float = 0.95,
    *,
    dispersion: float = 1.0,
) -> Interval:
    """The interval, kept within the bounds of the values and widened where it rests on fewer than FEW samples.

    `mean` is that of `samples` effective values. It is widened to the binomial interval of Agresti & Coull 1998,
    "Approximate is better than exact": no values within bounds vary more than those at the ends. `dispersion` is the
    observed variance as a share of that, 0 to 1; the more samples, the more it counts.
    """
    low, high = (float(np.clip(each, *bounds)) for each in interval)
    if samples >= FEW and high > low:
        return Interval(low, high)
    if not samples > 0.0:
        return Interval(*bounds)
    width = bounds[1] - bounds[0]
    z2 = NormalDist().inv_cdf((1.0 + level) / 2.0) ** 2
    share = (samples * (mean - bounds[0]) / width + z2 / 2.0) / (samples + z2)
    believed = (samples * min(1.0, dispersion) + z2) / (samples + z2)
    around = (z2 * believed * share * (1.0 - share) / (samples + z2)) ** 0.5
    return Interval(
        max(bounds[0], min(low, bounds[0] + width * (share - around))),
        min(bounds[1], max(high, bounds[0] + width * (share + around))),
    )


def effective_samples(weights: Floats) -> float:
    """Return how many equally weighted values tell as much: (sum w)^2 / sum w^2 (Kish 1965, section 11.7); 0 for none."""
    squares = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def dispersion(values: Floats, weights: Floats, mean: float, bounds: tuple[float, float]) -> float:
    """Return the weighted variance of the values, as a share of the largest variance within the bounds."""
    most = (mean - bounds[0]) * (bounds[1] - mean)
    if most <= 0.0:
        return 1.0
    return float((weights * np.square(values - mean)).sum() / weights.sum()) / most


def weighted_mean(
    values: Floats,
    weights: Floats,
    bounds: tuple[float, float] = (0.0, 1.0),
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, Interval]:
    """The weighted mean of values within `bounds` and its interval, widened where it rests on few of them: both [n].

    Raises ValueError for no values.
    """
    ratio = Ratio(values * weights, weights)
    ((mean, interval),) = bootstrap([ratio], level=level, resamples=resamples, seed=seed)
    samples, spread = effective_samples(weights), dispersion(values, weights, mean, bounds)
    return mean, widened(interval, mean, samples, bounds, level, dispersion=spread)


def sum_of(parts: Sequence[tuple[float, float, Interval]]) -> tuple[float, Interval]:
    """A sum of independent estimates, each (factor, value, interval), and its interval.

    By recovering variances from the intervals, so that skewed ones stay skewed: Zou & Donner 2008, "Construction of
    confidence limits about effect measures: a general approach".
    """
    total = sum(factor * value for factor, value, _ in parts)
    below = above = 0.0
    for factor, value, interval in parts:
        ends = sorted((factor * interval.low, factor * interval.high))
        below += (factor * value - ends[0]) ** 2
        above += (ends[1] - factor * value) ** 2
    return total, Interval(total - below**0.5, total + above**0.5)


def _interval(
    value: float, error: float, values: Floats, errors: Floats, level: float
) -> tuple[float, Interval]:
    if not np.isfinite(value):
        return float("nan"), Interval(-np.inf, np.inf)
    usable = np.isfinite(values) & np.isfinite(errors) & (errors > 1e-9 * max(1e-9, abs(value)))
    if not error > 0.0 or usable.mean() < 0.5:
        return float(value), Interval(float(value), float(value))
    distances = (values[usable] - value) / errors[usable]
    left, right = np.quantile(distances, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(value), Interval(float(value - right * error), float(value - left * error))


def _counts(n: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Count each request in each resample, [resamples, n], in blocks of rows."""
    rng = np.random.default_rng(seed)
    at_once = max(1, _AT_ONCE // n)
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        drawn = rng.integers(0, n, (rows, n)) + np.arange(rows)[:, None] * n
        yield np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def _moments(ratio: Ratio) -> Floats:
    a, b = ratio
    return np.stack([a, b, a * a, a * b, b * b], axis=1)


def _values_and_errors(counts: Floats, columns: Floats) -> tuple[Floats, Floats]:
    """Ratios and their standard errors, [rows, ratios]."""
    n = columns.shape[0]
    a, b, aa, ab, bb = np.moveaxis((counts @ columns / n).reshape(len(counts), -1, 5), 2, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = a / b
        variance = (aa - 2 * ratio * ab + ratio * ratio * bb) - (a - ratio * b) ** 2
        return ratio, np.sqrt(np.maximum(variance, 0.0) / n) / np.abs(b)
