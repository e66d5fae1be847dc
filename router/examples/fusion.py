"""Joins two rankings of candidates, by vector and by words, into one."""

from __future__ import annotations

from collections.abc import Sequence

from router.plan import Candidate

CONSTANT = 60.0
"""The constant of reciprocal rank fusion: Cormack, Clarke, Buettcher 2009, "Reciprocal Rank Fusion outperforms Condorcet and
individual rank learning methods", section 3."""


def ranks(scores: Sequence[float]) -> list[int]:
    """The place of each, 0 for the highest score; of equal ones the earlier comes first."""
    places = [0] * len(scores)
    for place, n in enumerate(sorted(range(len(scores)), key=lambda n: -scores[n])):
        places[n] = place
    return places


def fused_scores(near: Sequence[int], worded: Sequence[int]) -> list[float]:
    """Reciprocal rank fusion of the places in two rankings."""
    return [
        1.0 / (CONSTANT + 1 + one) + 1.0 / (CONSTANT + 1 + other)
        for one, other in zip(near, worded, strict=True)
    ]


def best_fused(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """The candidates that are scored, nearest first: half of them the nearest, the others the best of both rankings."""
    if len(candidates) <= most:
        return list(candidates)
    near = ranks([c.similarity for c in candidates])
    # What was not found by words comes last in that ranking, the nearest first.
    scores = fused_scores(near, ranks([c.words for c in candidates]))
    # Whatever words say, the nearest are there to be chosen.
    kept = sorted(range(len(candidates)), key=lambda n: (near[n] >= most // 2, -scores[n]))[:most]
    return [candidates[n] for n in sorted(kept, key=lambda n: near[n])]
