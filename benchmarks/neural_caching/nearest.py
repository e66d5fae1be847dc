"""A cache in the manner of OCaTS (Stogiannidis et al., 2023): the nearest remembered answers, with thresholds of their own.

The teacher is asked where the centroid of the k nearest remembered inputs is too far off, or where their labels disagree too
much. Both thresholds are swept, and the best are taken in hindsight, which flatters it: the original tunes them on other
data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.neural_caching.streams import Stream

_NEAREST = 5
DISTANCES = (0.1, 0.2, 0.3, 0.4, 0.5, 2.0)
ENTROPIES = (0.0, 0.4, 0.7, 1.0, 1.4)


@dataclass(frozen=True, slots=True)
class NearestRun:
    """What came of one pair of thresholds."""

    stream: str
    seed: int
    distance: float
    entropy: float
    calls: float
    accuracy: float


def remembered(stream: Stream, seed: int, distance: float, entropy: float) -> NearestRun:
    """Play one stream from an empty cache; every call counts."""
    order = stream.ordered(seed)
    told = stream.told(order)
    vectors, right, calls = stream.vectors[order], 0, 0
    kept: list[int] = []
    for place in range(len(order)):
        label = None
        if len(kept) >= _NEAREST:
            similar = vectors[kept] @ vectors[place]
            near = np.argpartition(-similar, _NEAREST - 1)[:_NEAREST]
            centroid = vectors[[kept[n] for n in near]].mean(axis=0)
            shares: dict[str, float] = {}
            for n in near:
                shares[told[kept[n]]] = shares.get(told[kept[n]], 0.0) + max(0.0, float(similar[n]))
            weights = np.array(list(shares.values()))
            weights = weights / max(1e-9, weights.sum())
            off = 1 - float(centroid @ vectors[place]) / float(np.linalg.norm(centroid))
            unsure = float(-(weights * np.log(np.maximum(weights, 1e-12))).sum())
            if off <= distance and unsure <= entropy:
                label = max(shares, key=lambda each: shares[each])
        if label is None:
            label, calls = told[place], calls + 1
            kept.append(place)
        right += label == stream.gold[order[place]]
    return NearestRun(stream.name, seed, distance, entropy, calls / len(order), right / len(order))
