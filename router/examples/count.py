"""Tries other numbers of examples now and then, with a known probability, so that the number can be learnt from outcomes.

How many examples are sent is chosen with them (router.examples.combiner). For a small share of requests it is the next
smaller or larger of RUNGS instead, which is logged; what the coefficients of router.examples.set_quality are learnt from
then holds more than the one number.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

RUNGS = (0, 1, 2, 3, 5, 8)


@dataclass(frozen=True, slots=True)
class Knobs:
    """The settings for trying other numbers."""

    explore_share: float = 0.05
    """Share of requests that get another number."""


@dataclass(frozen=True, slots=True)
class Count:
    """The number of examples for one request."""

    number: int
    probability: float
    """Probability of this number, above 0."""
    explored: bool


def drawn(best: int, limit: int, knobs: Knobs, rng: random.Random) -> Count:
    """The number that is sent: mostly `best`, else one of the two rungs beside it, none above `limit`."""
    below = [rung for rung in RUNGS if rung < best][-1:]
    above = [rung for rung in RUNGS if best < rung <= limit][:1]
    beside = below + above
    if not beside or not 0.0 < knobs.explore_share <= 1.0:
        return Count(best, 1.0, explored=False)
    if rng.random() >= knobs.explore_share:
        return Count(best, 1.0 - knobs.explore_share, explored=False)
    return Count(rng.choice(beside), knobs.explore_share / len(beside), explored=True)
