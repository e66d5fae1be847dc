"""Compares what serves with what is to take its place, on the same held-out outcomes, with intervals."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from learning.evaluation.intervals import weighted_mean

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
    told: dict[str, Any] = {"measure": measure, "outcomes": count, "built_in_before": with_built_in}
    series = {"before": before, "after": after, "change": after - before}
    for name, values in series.items():
        bounds = (-1.0, 1.0) if name == "change" else (0.0, 1.0)
        mean, (low, high) = weighted_mean(values, weights, bounds)
        told[name] = {"mean": round(mean, 5), "low": round(low, 5), "high": round(high, 5)}
    return told
