"""What RouteLLM measures of a router (Ong et al. 2024, section 2.2): performance gap recovered as a function of calls.

A router gives every request a score, how much better the large engine is expected to do; the requests with the highest
scores go to it. PGR is the share of the accuracy gap between always-small and always-large that is recovered; APGR its
average over all shares of calls to the large engine; CPT(x) the smallest share with which PGR reaches x.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def recovered(scores: Floats, quality: Floats) -> Floats:
    """[n + 1]: PGR when the k highest scores go to the large engine, k = 0..n. Equal scores count as any order's average.

    `quality` is [n, 2], small and large. NaN throughout when there is no gap.
    """
    gained = quality[:, 1] - quality[:, 0]
    gap = gained.sum()
    if gap <= 0:
        return np.full(len(scores) + 1, np.nan)
    _, ties = np.unique(-scores, return_inverse=True)
    # Within a tie nothing is known about the order: each of its requests brings the tie's average.
    means = np.bincount(ties, gained) / np.bincount(ties)
    order = np.argsort(-scores, kind="stable")
    return np.concatenate([[0.0], np.cumsum(means[ties[order]])]) / gap


def apgr(scores: Floats, quality: Floats) -> float:
    """Average PGR over the share of calls to the large engine. 0.5 is what chance gives."""
    curve = recovered(scores, quality)
    return float(np.trapezoid(curve, dx=1.0 / (len(curve) - 1)))


def cpt(scores: Floats, quality: Floats, level: float) -> float:
    """Smallest share of calls, 0..1, with which PGR is at least `level`; NaN if none is."""
    curve = recovered(scores, quality)
    reached = np.flatnonzero(curve >= level)
    return float(reached[0] / (len(curve) - 1)) if len(reached) else math.nan
