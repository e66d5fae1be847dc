"""Computes the gain from improving an example, or from writing one beside it (EchoLM, arXiv 2501.12689, §4.3.1).

Pure functions. store.examples.accounting accumulates gains per use; learning.replay.plan spends money by them.
"""

from __future__ import annotations

from collections.abc import Sequence

UNJUDGED = 0.5
"""The quality of an answer that nobody judged yet, halfway between worthless and perfect."""


def gain(model_cost: float, quality: float) -> float:
    """Return the possible gain of improving an example at one use: cost of the model that had to answer x (1 - quality).

    G(e) of EchoLM §4.3.1. Both between 0 and 1: the model's cost over the dearest model's, and the quality of the
    answer that was given with the example's help. Accumulated per use and decayed
    (store.examples.accounting.accumulated), so that what is used often, needs a dear model and is answered badly
    comes first. Raises ValueError outside 0 to 1.
    """
    for name, value in (("model cost", model_cost), ("quality", quality)):
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"a normalised {name} of {value}: between 0 and 1 is right")
    return model_cost * (1.0 - quality)


def model_cost(output_usd_per_mtok: float, dearest_usd_per_mtok: float) -> float:
    """A model's cost over the dearest model's, 0 to 1, by the price of what it says; 1 if nothing has a price."""
    return min(1.0, output_usd_per_mtok / dearest_usd_per_mtok) if dearest_usd_per_mtok else 1.0


def correction(model_cost: float, known: Sequence[float], now: Sequence[float]) -> float:
    """Return what to add to the gain of a use once more is known of its quality: it comes to `gain(cost, mean of now)`.

    `known`: the qualities that the gain rested on before, 0 to 1; empty: UNJUDGED was assumed. Negative where the answer
    turns out better. Raises ValueError as `gain` does.
    """
    return gain(model_cost, _mean(now)) - gain(model_cost, _mean(known))


def _mean(qualities: Sequence[float]) -> float:
    return sum(qualities) / len(qualities) if qualities else UNJUDGED
