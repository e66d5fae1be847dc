"""Measures how well predicted qualities agree with observed ones on a hold-out, the same for any scorer.

Observed qualities may lie between 0 and 1; where a figure needs right and wrong, 1/2 and more is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from learning.training.scorer.rows import Row

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Pairs = npt.NDArray[np.int64]

LEAST_DIFFERENCE = 0.05
"""Qualities nearer than this are a tie: nothing is to be ranked."""
SAME_REQUEST = 0.93
"""Cosine from which two requests count as the same one asked again."""
MOST_PAIRS_OF_A_ROW = 8
_LATEST = 6000
_BINS = 10


def figures(predicted: Floats, rows: Sequence[Row], pairs: Pairs) -> dict[str, float]:
    """log_loss, brier, ece, auc, ranking, mean_predicted, mean_observed; NaN where there is nothing to tell them by.

    `ranking` is the share of `pairs` whose better outcome was predicted to be the better one, ties counting half.
    """
    observed = np.array([row.quality for row in rows])
    weight = np.array([row.weight for row in rows])
    p = np.clip(predicted, 1e-4, 1 - 1e-4)
    log_loss = -(observed * np.log(p) + (1 - observed) * np.log(1 - p))
    return {
        "log_loss": float(np.average(log_loss, weights=weight)),
        "brier": float(np.average((p - observed) ** 2, weights=weight)),
        "ece": calibration_error(p, observed, weight),
        "auc": area_under_curve(p, observed >= 0.5),
        "ranking": _ranked(predicted, observed, pairs),
        "mean_predicted": float(np.average(p, weights=weight)),
        "mean_observed": float(np.average(observed, weights=weight)),
    }


def calibration_error(predicted: Floats, observed: Floats, weight: Floats) -> float:
    """Expected calibration error over ten bins of equal width (Naeini, Cooper, Hauskrecht 2015, "Obtaining Well Calibrated
    Probabilities Using Bayesian Binning", section 4)."""
    bins = np.minimum((predicted * _BINS).astype(int), _BINS - 1)
    error = 0.0
    for b in np.unique(bins):
        there = bins == b
        error += weight[there].sum() * abs(
            np.average(predicted[there], weights=weight[there])
            - np.average(observed[there], weights=weight[there])
        )
    return float(error / weight.sum())


def area_under_curve(predicted: Floats, right: npt.NDArray[np.bool_]) -> float:
    """Probability that a right outcome was predicted higher than a wrong one (Mann-Whitney), ties counting half."""
    positives, negatives = int(right.sum()), int((~right).sum())
    if not positives or not negatives:
        return float("nan")
    _, place, count = np.unique(predicted, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    return float((rank[right].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def comparable_pairs(rows: Sequence[Row]) -> Pairs:
    """(better, worse) places of outcomes of one request, or of nearly the same one, that differ; shape (pairs, 2).

    Only the latest few thousand rows are looked at, and each as the better one of a few pairs at most.
    """
    first = max(0, len(rows) - _LATEST)
    late = rows[first:]
    if not late:
        return np.zeros((0, 2), np.int64)
    vectors = np.stack([row.request for row in late])
    quality = np.array([row.quality for row in late])
    found: list[tuple[int, int]] = []
    for start in range(0, len(late), 512):
        near = vectors[start : start + 512] @ vectors.T >= SAME_REQUEST
        worse = quality[start : start + 512, None] - quality[None, :] > LEAST_DIFFERENCE
        better_at, worse_at = np.nonzero(near & worse)
        taken: dict[int, int] = {}
        # From the latest back: what was asked last is nearest to what will be asked next.
        for i, j in zip(better_at[::-1].tolist(), worse_at[::-1].tolist(), strict=True):
            if taken.get(i, 0) < MOST_PAIRS_OF_A_ROW:
                taken[i] = taken.get(i, 0) + 1
                found.append((first + start + i, first + j))
    return np.array(found, np.int64).reshape(-1, 2)


def _ranked(predicted: Floats, observed: Floats, pairs: Pairs) -> float:
    if not len(pairs):
        return float("nan")
    difference = predicted[pairs[:, 0]] - predicted[pairs[:, 1]]
    return float(np.mean((difference > 0) + 0.5 * (difference == 0)))
