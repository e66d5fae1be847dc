"""An engine's own report becomes what the chooser weighs."""

from __future__ import annotations

from engines.engine import EngineInfo, EngineLoad
from router.choosing.load import EngineState

_TYPICAL_TOKENS = 256


def engine_state(info: EngineInfo, load: EngineLoad) -> EngineState:
    """What is known of an engine now. What it never told is 0: unknown."""
    first_s = load.first_chunk_s if load.first_chunk_s is not None else 0.0
    tokens_per_s = 0.0
    if load.answer_s is not None:
        # Whole answers are timed, not tokens: streams and others together, over a typical length.
        rest_s = max(load.answer_s - first_s, 1e-3)
        tokens_per_s = _TYPICAL_TOKENS / rest_s
    return EngineState(
        info.name,
        info.price,
        utilisation=load.utilisation,
        first_token_s=first_s,
        tokens_per_s=tokens_per_s,
        healthy=load.open,
        idle_first_token_s=load.idle_first_chunk_s,
    )
