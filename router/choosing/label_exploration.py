"""Leaves out or exchanges one example at random, with a known probability, so that the effect of each can be estimated.

Examples that are always sent together cannot be told apart afterwards. Each set that might have been sent has a
probability, which is logged with the set that was sent; weighting by its inverse (Horvitz, Thompson 1952, "A
generalization of sampling without replacement from a finite universe", section 2) gives unbiased estimates of the value
of each set. The caller knows whether exploration is allowed (a key may opt out; a client that names its engine gets that
engine), and passes a share of 0 if it is not.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from router.examples.combiner import Combination
from router.plan import Candidate
from router.prompt import example_tokens


@dataclass(frozen=True, slots=True)
class Explored:
    """The examples that are sent."""

    chosen: tuple[Candidate, ...]
    """In the order in which they are sent; empty when the only one was dropped."""
    kind: Literal["", "drop", "swap"]
    """Kind of change that was made; empty for none."""
    probability: float
    """Probability of exactly this set, given the combination; above 0."""


def explored(
    combination: Combination,
    candidates: Sequence[Candidate],
    share: float,
    rng: random.Random,
    *,
    budget_tokens: int | None = None,
) -> Explored:
    """The combination, or with probability `share` one that differs from it in one example.

    Half of the share drops an example, drawn uniformly; the other half replaces a chosen example by one of `candidates`
    that was not chosen, uniformly among all exchanges within `budget_tokens` (None: any). Without a possible exchange the
    whole share drops. Nothing is explored if nothing was chosen. Raises ValueError for a share outside 0 to 1.
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"a share of {share}: between 0 and 1 is right")
    chosen = combination.chosen
    if not chosen or share == 0.0:
        return Explored(chosen, "", 1.0)
    if rng.random() >= share:
        return Explored(chosen, "", 1.0 - share)
    exchanges = _exchanges(combination, candidates, budget_tokens)
    drops = share / 2 if exchanges else share
    if not exchanges or rng.random() < 0.5:
        place = rng.randrange(len(chosen))
        return Explored((*chosen[:place], *chosen[place + 1 :]), "drop", drops / len(chosen))
    place, other = exchanges[rng.randrange(len(exchanges))]
    swapped = (*chosen[:place], other, *chosen[place + 1 :])
    return Explored(swapped, "swap", share / 2 / len(exchanges))


def _exchanges(
    combination: Combination, candidates: Sequence[Candidate], budget_tokens: int | None
) -> list[tuple[int, Candidate]]:
    """Every possible exchange, as (place in the set, candidate to put there)."""
    ids = {c.example.id for c in combination.chosen}
    others = list({c.example.id: c for c in candidates if c.example.id not in ids}.values())
    if budget_tokens is None:
        return [(place, other) for place in range(len(ids)) for other in others]
    spare = budget_tokens - combination.tokens
    freed = [spare + example_tokens(c) for c in combination.chosen]
    needed = [example_tokens(c) for c in others]
    return [
        (place, other)
        for place in range(len(freed))
        for other, tokens in zip(others, needed, strict=True)
        if tokens <= freed[place]
    ]
