"""Compares what serves with what is to take its place, on the same held-out outcomes, with intervals."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from learning.evaluation.intervals import Interval, Ratio, bootstrap, widened

Floats = npt.NDArray[np.float64]
Measure = Literal["squared_error", "quality", "agreement"]
"""squared_error: of the predicted quality, the less the better. quality: expected of the answers, 0 to 1. agreement: share
of labels that are the teacher's."""
_FEWEST = 2


def comparison(
    measure: Measure,
    before: Floats,
    after: Floats,
    weights: Floats | None = None,
    *,
    with_built_in: bool,
) -> dict[str, Any] | None:
    """Means of both over the same outcomes, each in 0 to 1, and of their difference, with 95 % intervals, as JSON.

    `before`, `after`: (outcomes,), of what serves and of the new one. `with_built_in`: whether what is built in served. None
    for fewer than two outcomes.
    """
    count = len(before)
    if count < _FEWEST:
        return None
    weights = np.ones(count) if weights is None else weights
    series = {"before": (before, (0.0, 1.0)), "after": (after, (0.0, 1.0))}
    series["change"] = (after - before, (-1.0, 1.0))
    found = bootstrap([Ratio(values * weights, weights) for values, _ in series.values()])
    told: dict[str, Any] = {"measure": measure, "outcomes": count, "built_in_before": with_built_in}
    for (name, (values, bounds)), (mean, interval) in zip(series.items(), found, strict=True):
        low, high = _believed(interval, mean, values, weights, bounds)
        told[name] = {"mean": round(mean, 5), "low": round(low, 5), "high": round(high, 5)}
    return told


def _believed(
    interval: Interval, mean: float, values: Floats, weights: Floats, bounds: tuple[float, float]
) -> Interval:
    """The interval, widened where it rests on few outcomes, by as much as these values vary."""
    effective = float(weights.sum() ** 2 / np.square(weights).sum())
    most = (mean - bounds[0]) * (bounds[1] - mean)
    variance = float(np.average(np.square(values - mean), weights=weights))
    return widened(interval, mean, effective, bounds, dispersion=variance / most if most > 0 else 1.0)
