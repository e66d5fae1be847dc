"""What keeping an example's prefix warm in an engine saves, and what it takes: EchoLM §4.3.2, with our own reading of it.

Saved per use is the time to compute the example's tokens less the time to load them; both are linear in their number.
Uses are counted where they pay: an engine shares a prompt's beginning only, so a request counts for whoever stands first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from learning.bank.warm.knapsack import solve
from store.examples.accounting import DECAY_RATE_PER_S

_PAIRS = 20_000
_LEAST_SAMPLES = 20


@dataclass(frozen=True, slots=True)
class Line:
    """Milliseconds = base + per_token x tokens."""

    base_ms: float
    per_token_ms: float


@dataclass(frozen=True, slots=True)
class Use:
    """One request that carried examples."""

    tenant: str
    at_s: float
    example_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """An example that is worth its memory."""

    tenant: str
    example_id: int
    tokens: int
    uses: float
    """Decayed: requests of this hour count 1, those of the hour before 0.9."""
    saves_ms: float
    """Per hour's worth of such use."""


@dataclass(frozen=True, slots=True)
class KvPlan:
    """What to keep, the most used first: the order in which examples are to stand in prompts."""

    kept: tuple[Kept, ...]
    blocks: int
    """Of memory, that it takes."""
    exact: bool
    """Whether no other choice of examples would save more."""


def fitted_line(tokens: Sequence[float], latency_ms: Sequence[float], *, seed: int = 0) -> Line | None:
    """The line through (tokens, milliseconds) that is not led astray by what queued; None for too few or too equal points.

    Theil-Sen (Sen 1968): the median of the slopes between pairs, 20,000 of them drawn at random where there are more; the
    base is the median of what is left. Neither is below zero: a longer prompt is never cheaper.
    """
    x, y = np.asarray(tokens, float), np.asarray(latency_ms, float)
    if len(x) < _LEAST_SAMPLES:
        return None
    if len(x) * (len(x) - 1) // 2 <= _PAIRS:
        first, second = np.triu_indices(len(x), 1)
    else:
        first, second = np.random.default_rng(seed).integers(0, len(x), (2, _PAIRS))
    apart = x[first] != x[second]
    if apart.sum() < _LEAST_SAMPLES:
        return None
    first, second = first[apart], second[apart]
    slope = max(0.0, float(np.median((y[second] - y[first]) / (x[second] - x[first]))))
    return Line(max(0.0, float(np.median(y - slope * x))), slope)


def decayed_uses(
    uses: Sequence[Use], now_s: float
) -> tuple[dict[tuple[str, int], float], dict[tuple[str, int], float]]:
    """(tenant, example) to its uses, each times 0.9 per hour of age; and to the uses in which it would stand first.

    First stands the one with the most uses of those in the request; of equals, the lower id.
    """
    total: dict[tuple[str, int], float] = {}
    weights = [math.exp(-DECAY_RATE_PER_S * max(0.0, now_s - use.at_s)) for use in uses]
    for use, weight in zip(uses, weights, strict=True):
        for id in use.example_ids:
            total[use.tenant, id] = total.get((use.tenant, id), 0.0) + weight
    leading: dict[tuple[str, int], float] = {}
    for use, weight in zip(uses, weights, strict=True):
        if use.example_ids:
            first = min(use.example_ids, key=lambda id: (-total[use.tenant, id], id))
            leading[use.tenant, first] = leading.get((use.tenant, first), 0.0) + weight
    return total, leading


def kv_plan(
    uses: Sequence[Use],
    tokens: Mapping[tuple[str, int], int],
    *,
    compute: Line,
    load: Line,
    block_tokens: int,
    capacity_blocks: int,
    now_s: float,
) -> KvPlan:
    """What to keep within `capacity_blocks` of `block_tokens` tokens each, the unit in which engines share prefixes.

    `tokens` has the examples that still exist, by (tenant, id). The compute line's base is paid by every request with or
    without a warm prefix, so it saves nothing; loading's base is paid per load.
    """
    total, leading = decayed_uses([_without_gone(use, tokens) for use in uses], now_s)
    names = sorted(leading, key=lambda name: (-total[name], name))
    saves = [
        (compute.per_token_ms * tokens[name] - load.base_ms - load.per_token_ms * tokens[name])
        * leading[name]
        for name in names
    ]
    blocks = [max(1, -(-tokens[name] // block_tokens)) for name in names]
    chosen, exact = solve(blocks, saves, capacity_blocks)
    kept = tuple(Kept(*names[i], tokens[names[i]], leading[names[i]], saves[i]) for i in chosen)
    return KvPlan(kept, sum(blocks[i] for i in chosen), exact)


def _without_gone(use: Use, tokens: Mapping[tuple[str, int], int]) -> Use:
    return Use(use.tenant, use.at_s, tuple(id for id in use.example_ids if (use.tenant, id) in tokens))


_BYTES: dict[str, int] = {
    "float32": 4,
    "float": 4,
    "float16": 2,
    "half": 2,
    "bfloat16": 2,
    "fp8": 1,
    "int8": 1,
}


def kv_bytes_per_token(config: Mapping[str, Any], kv_cache_dtype: str | None = None) -> int:
    """Bytes of keys and values per token, from a model's `config.json` as Hugging Face writes it.

    2 x layers x key-value heads x head size x bytes per number. Layers with a sliding window keep less: then this is an
    upper bound. Raises ValueError for what does not say, or compresses them (multi-head latent attention).
    """
    config = config.get("text_config", config)
    if config.get("kv_lora_rank"):
        raise ValueError("this model compresses keys and values; set bytes_per_token")
    try:
        layers, heads = int(config["num_hidden_layers"]), int(config["num_attention_heads"])
        kv_heads = int(config.get("num_key_value_heads") or heads)
        size = int(config.get("head_dim") or int(config["hidden_size"]) // heads)
        kind = str(kv_cache_dtype or config.get("torch_dtype") or config.get("dtype") or "bfloat16")
        return 2 * layers * kv_heads * size * _BYTES[kind.removeprefix("torch.")]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            "config.json does not say how large keys and values are; set bytes_per_token"
        ) from error
