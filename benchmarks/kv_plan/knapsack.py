"""Which examples keep their KV cache in a memory of a given size: the 0/1 knapsack of EchoLM (arXiv 2501.12689, §4.3.2).

The plan that runs (learning.bank.warm.prefixes) takes the most used examples instead, which loses one percent of the value
(benchmarks/kv_plan). This is the exact solution to compare it with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def kept_in_cache(
    tokens: Sequence[int],
    uses: Sequence[float],
    *,
    capacity_bytes: int,
    bytes_per_token: int,
    compute_ms_per_token: float,
    load_ms: float = 0.0,
    load_ms_per_token: float = 0.0,
    block_tokens: int = 16,
) -> list[int]:
    """Positions, in ascending order, of the examples that save the most time and fit into `capacity_bytes` together.

    tokens: length of each example, shape (n,). uses: its reuse frequency, shape (n,): a count that decays by 0.9 per hour
    (store.examples.accounting.decayed). An example weighs the bytes of its keys and values, in whole blocks of
    `block_tokens`, the unit in which engines keep them. Its value, in milliseconds, is (compute latency - IO latency) x
    reuse frequency; both latencies are linear in the length. The part of the compute latency that does not depend on the
    length is paid with or without a cache, so it is left out. What loads slower than it is computed is never kept.

    Dynamic programming over the capacity: n x blocks steps, and as many bits of memory. Raises ValueError for sequences of
    different lengths, a length below 1, or a value that is not finite.
    """
    saved_ms = [
        (compute_ms_per_token * length - load_ms - load_ms_per_token * length) * count
        for length, count in zip(tokens, uses, strict=True)
    ]
    if any(length < 1 for length in tokens) or not all(map(math.isfinite, saved_ms)):
        raise ValueError("each example needs a length of at least 1 and a finite value")
    capacity = capacity_bytes // (bytes_per_token * block_tokens)
    weights = [math.ceil(length / block_tokens) for length in tokens]
    worthwhile = [i for i, value in enumerate(saved_ms) if value > 0 and weights[i] <= capacity]
    best = np.zeros(capacity + 1)
    taken = []
    for i in worthwhile:
        with_it = best[: -weights[i]] + saved_ms[i]
        better = with_it > best[weights[i] :]
        best[weights[i] :][better] = with_it[better]
        taken.append(np.packbits(np.concatenate((np.zeros(weights[i], bool), better))))
    chosen: list[int] = []
    for i, bits in zip(reversed(worthwhile), reversed(taken), strict=True):
        if bits[capacity // 8] >> (7 - capacity % 8) & 1:
            chosen.append(i)
            capacity -= weights[i]
    return chosen[::-1]
