"""An outcome model of our own: from what examples are worth to the quality of an answer with them.

No recorded data holds a small model's answers with and without examples. This shares nothing with the simulated world, and
was set once and never changed; the product's set quality can take both its forms. An engine without examples is right with a
chance of its own for each request, evenly spread from 0 to 0.6. Two families:

- *one is enough*: the best example's worth is what the answer is worth, times 0.9 for a small engine's own slips, times 0.98
  for every further example. Where it holds nothing, the engine answers from what it knows, of which each example spoils
  a tenth.
- *several vote*: each example is a vote for its answer and the engine's own knowledge one and a half; an answer is given
  with a chance in proportion to its votes squared, and is worth what its best example is worth, times 0.95.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

Family = Literal["one is enough", "several vote"]
FAMILIES: tuple[Family, ...] = ("one is enough", "several vote")
_SLIPS, _FURTHER, _SPOILT = 0.9, 0.98, 0.9
_OWN_VOTES, _READ = 1.5, 0.95
_MOST_ALONE = 0.6
_NOISE = 0.1


def alone(seed: int, i: int) -> float:
    """The quality of the engine's own answer to prompt `i`, without examples."""
    return _MOST_ALONE * random.Random(f"{seed} {i}").random()


def quality(family: Family, without: float, worths: Sequence[float], answers: Sequence[str]) -> float:
    """The expected quality of an answer with these examples, 0 to 1."""
    if not worths:
        return without
    if family == "one is enough":
        best = max(worths)
        return best * _SLIPS * _FURTHER ** (len(worths) - 1) + (1.0 - best) * without * _SPOILT ** len(worths)
    votes, worth = {"": _OWN_VOTES}, {"": without}
    for said, worth_of in zip(answers, worths, strict=True):
        key = f"={said.strip().casefold()}"
        votes[key] = votes.get(key, 0.0) + 1.0
        worth[key] = max(worth.get(key, 0.0), worth_of)
    squares = sum(count * count for count in votes.values())
    return _READ * sum(count * count * worth[key] for key, count in votes.items()) / squares


def observed(expected: float, graded: bool, rng: random.Random) -> float:
    """One outcome: right or wrong, or a graded one with noise."""
    if graded:
        return min(1.0, max(0.0, expected + rng.gauss(0.0, _NOISE)))
    return float(rng.random() < expected)
