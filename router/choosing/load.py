"""Under load the choice leans to cheap engines: a bias that is zero below a threshold of use and smooth above it.

The bias is added to the predicted reward and to nothing else: what is learnt never sees it, so a busy hour teaches no
wrong lesson, and an idle gateway decides as if there were no such thing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from engines.engine import Price


@dataclass(frozen=True, slots=True)
class EngineState:
    """An engine as the chooser sees it now."""

    name: str
    price: Price = field(default_factory=Price)
    utilisation: float = 0.0
    """Share of its capacity in use, queue included: may exceed 1. See engines.engine.EngineLoad.utilisation."""
    first_token_s: float = 0.0
    """Time to the first token lately (a moving average); 0 when unknown."""
    tokens_per_s: float = 0.0
    """Of one answer, once it has begun; 0 when unknown."""
    healthy: bool = True
    idle_first_token_s: float | None = None
    """Time to the first token when nothing queues; None takes `first_token_s`."""


@dataclass(frozen=True, slots=True)
class LoadKnobs:
    """`threshold`: use below which nothing changes. `strength`: reward a fully loaded reference loses at most."""

    threshold: float
    strength: float
    cheap_share: float = 0.2
    """Of `strength`, what a free engine loses when it is loaded itself: it must be able to push back, but last."""


def pressure(used: float, threshold: float) -> float:
    """0 up to `threshold`, rising smoothly above it (continuous first derivative), never over 1.

    tanh(x^2) with x = (used - threshold) / (1 - threshold): 0.76 at full use.
    """
    if not used > threshold:
        return 0.0
    x = (used - threshold) / max(1e-6, 1 - threshold)
    return math.tanh(min(x, 10.0) ** 2)


def bias(used: float, relative_price: float, knobs: LoadKnobs) -> float:
    """What an engine's load adds to its reward: 0 or negative. `relative_price` 0..1, 1 the dearest engine's."""
    share = knobs.cheap_share + (1 - knobs.cheap_share) * relative_price
    return -knobs.strength * share * pressure(used, knobs.threshold)
