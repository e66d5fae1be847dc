"""The state of an engine as the chooser weighs it, and the reward it loses under load.

The load bias is zero below a threshold of utilisation and smooth above it, and larger for dearer engines. It is added to the
predicted reward and to nothing else: nothing is learnt from it, so a busy hour teaches nothing wrong, and an idle gateway
decides as if it did not exist.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from engines.engine import EngineInfo, EngineLoad, Price

_TYPICAL_TOKENS = 256


@dataclass(frozen=True, slots=True)
class EngineState:
    """An engine as the chooser weighs it now."""

    name: str
    price: Price = field(default_factory=Price)
    utilisation: float = 0.0
    """Share of its capacity in use, queue included: may exceed 1. See engines.engine.EngineLoad.utilisation."""
    first_token_s: float = 0.0
    """Moving average of the time to first token; 0 when unknown."""
    tokens_per_s: float = 0.0
    """Speed of one answer after its first token; 0 when unknown."""
    healthy: bool = True
    idle_first_token_s: float | None = None
    """Time to first token when nothing queues; None takes `first_token_s`."""
    answer_tokens: float | None = None
    """Recent mean length of its answers; None before the first."""


def engine_state(info: EngineInfo, load: EngineLoad) -> EngineState:
    """The state of an engine from its own report. What the engine does not report is 0: unknown."""
    first_s = load.first_chunk_s if load.first_chunk_s is not None else 0.0
    tokens_per_s = 0.0
    if load.answer_s is not None:
        # Whole answers are timed, not tokens: streams and others together, over their mean length.
        rest_s = max(load.answer_s - first_s, 1e-3)
        tokens_per_s = (load.answer_tokens or _TYPICAL_TOKENS) / rest_s
    return EngineState(
        info.name,
        info.price,
        utilisation=load.utilisation,
        first_token_s=first_s,
        tokens_per_s=tokens_per_s,
        healthy=load.open,
        idle_first_token_s=load.idle_first_chunk_s,
        answer_tokens=load.answer_tokens,
    )


@dataclass(frozen=True, slots=True)
class LoadKnobs:
    """The settings of the reward that an engine loses under load."""

    strength: float
    """Largest reward that a fully loaded reference loses; 0 ignores load."""
    idle_up_to: float = 0.7
    """Utilisation below which nothing changes."""
    cheap_share: float = 0.2
    """Share of `strength` that an engine without a price loses under load: it must lose some, but less than dear ones."""


def pressure(used: float, threshold: float) -> float:
    """0 up to `threshold`, rising smoothly above it (continuous first derivative), at most 1.

    tanh(x^2) with x = (used - threshold) / (1 - threshold): 0.76 at full use.
    """
    if not used > threshold:
        return 0.0
    x = (used - threshold) / max(1e-6, 1 - threshold)
    return math.tanh(min(x, 10.0) ** 2)


def bias(used: float, relative_price: float, knobs: LoadKnobs) -> float:
    """Return what an engine's load adds to its reward: 0 or negative. `relative_price` is 0..1, 1 for the dearest engine."""
    share = knobs.cheap_share + (1 - knobs.cheap_share) * relative_price
    return -knobs.strength * share * pressure(used, knobs.idle_up_to)
