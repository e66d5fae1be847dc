"""The reward of an answer: quality less cost less latency, weighted by one preference, with a penalty on large quality gaps.

The form is EchoLM's (§4.2): a weighted sum of quality and relative cost, "an amplified penalty" where the quality
difference to the larger model is large. BaRP's preference vector makes the weights part of the question, so that one
model of quality serves every preference.
"""

from __future__ import annotations

from dataclasses import dataclass

WHOLE_PRICE = 0.15
"""Quality that saving the whole price of the reference is worth at a preference of 0.5."""
LATENCY_SHARE = 0.2
"""Share of the weight not on quality that goes to latency; cost has the rest."""
LARGE_GAP = 0.3
"""Gap to the reference above which the loss is amplified: on a seven-point scale, more than one point."""
AMPLIFICATION = 1.0
"""Additional weight of the quality lost beyond LARGE_GAP."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of quality, cost and latency; they sum to 1."""

    quality: float
    cost: float
    latency: float

    def as_tuple(self) -> tuple[float, float, float]:
        """(quality, cost, latency)."""
        return self.quality, self.cost, self.latency


def weights(preference: float) -> Weights:
    """The weights for a preference: 0 counts price and speed alone, 1 quality alone, 0.5 trades WHOLE_PRICE.

    `preference` is clipped to 0..1; NaN counts as 0.5. At p the whole price of the reference buys
    WHOLE_PRICE * (1 - p) / p of quality.

    >>> weights(1.0)
    Weights(quality=1.0, cost=0.0, latency=0.0)
    >>> weights(0.0)
    Weights(quality=0.0, cost=0.8, latency=0.2)
    """
    not_nan = preference == preference
    p = min(1.0, max(0.0, preference)) if not_nan else 0.5
    quality = p / (p + WHOLE_PRICE * (1 - p))
    return Weights(quality, (1 - quality) * (1 - LATENCY_SHARE), (1 - quality) * LATENCY_SHARE)


def utility(quality: float, reference_quality: float = 1.0) -> float:
    """Quality, less the amplified penalty on the gap to the reference beyond LARGE_GAP. Between -0.7 and 1.

    Continuous and increasing in `quality`. Where the reference itself would fail, no gap is large.

    >>> utility(0.9), round(utility(0.4), 6)
    (0.9, 0.1)
    >>> utility(0.2, reference_quality=0.3)
    0.2
    """
    gap = reference_quality - quality
    return quality - AMPLIFICATION * max(0.0, gap - LARGE_GAP)


def expected_utility(quality: float, reference_quality: float) -> float:
    """The mean utility of an answer that is right with probability `quality`, where the reference is right with probability
    `reference_quality`, over the four cases; the two are taken as independent.

    The penalty is convex: the utility of the mean would hide that some answers are wholly wrong.

    >>> round(utility(0.8, 0.9), 6), round(expected_utility(0.8, 0.9), 6)
    (0.8, 0.674)
    """
    # Of the four only one has a large gap: the action is wrong, the reference right.
    return quality - AMPLIFICATION * (1.0 - LARGE_GAP) * (1.0 - quality) * reference_quality


def expected_reward(
    weights: Weights,
    quality: float,
    relative_cost: float,
    relative_latency: float,
    reference_quality: float | None,
) -> float:
    """As `reward`, averaged over outcomes (`expected_utility`); `reference_quality` None for the reference itself."""
    # The reference is right exactly where it is right: it never loses against itself.
    useful = quality if reference_quality is None else expected_utility(quality, reference_quality)
    return weights.quality * useful - weights.cost * relative_cost - weights.latency * relative_latency


def reward(
    weights: Weights,
    quality: float,
    relative_cost: float,
    relative_latency: float,
    reference_quality: float = 1.0,
) -> float:
    """w_q * utility - w_c * relative cost - w_l * relative latency.

    `quality` 0..1. `relative_cost` and `relative_latency` 0..1: shares of the dearest and the slowest way to answer this
    request. Of an answer that was seen; `expected_reward` is the mean over those that may come.

    >>> round(reward(Weights(0.5, 0.4, 0.1), quality=0.8, relative_cost=0.1, relative_latency=0.5), 6)
    0.31
    """
    return (
        weights.quality * utility(quality, reference_quality)
        - weights.cost * relative_cost
        - weights.latency * relative_latency
    )
