"""Which items to take when not all fit: the 0/1 knapsack, solved exactly and greedily.

Exact: dynamic programming over the capacity (Kellerer, Pferschy, Pisinger, "Knapsack Problems", 2004, §2.3). Greedy: by
value per weight, or the single best item if that is worth more: never worse than half of the best (§2.1, Ext-Greedy).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

MOST_CELLS = 2_000_000_000
"""Items x capacity up to which `exact` is willing to work: about two seconds and 250 MB."""


def exact(weights: Sequence[int], values: Sequence[float], capacity: int) -> list[int]:
    """Positions of a set of the highest total value whose weights sum to at most `capacity`, in ascending order.

    Time and bits of memory: items x capacity. Raises ValueError for weights below 1, values that are not finite, or a
    problem beyond MOST_CELLS.
    """
    items = _worth_taking(weights, values, capacity)
    if sum(weights[i] for i in items) <= capacity:
        return items
    if len(items) * (capacity + 1) > MOST_CELLS:
        raise ValueError(f"{len(items)} items x capacity {capacity} is too much for the exact solver")
    best = np.zeros(capacity + 1)
    taken = np.zeros((len(items), capacity // 8 + 1), np.uint8)
    for row, i in enumerate(items):
        weight = weights[i]
        with_it = best[:-weight] + values[i]
        better = with_it > best[weight:]
        best[weight:][better] = with_it[better]
        taken[row] = np.packbits(np.concatenate((np.zeros(weight, bool), better)), bitorder="little")
    chosen, left = [], capacity
    for row in range(len(items) - 1, -1, -1):
        if taken[row, left // 8] >> (left % 8) & 1:
            chosen.append(items[row])
            left -= weights[items[row]]
    return chosen[::-1]


def greedy(weights: Sequence[int], values: Sequence[float], capacity: int) -> list[int]:
    """Positions chosen by value per weight, in ascending order; n log n. Raises ValueError as `exact` does."""
    items = _worth_taking(weights, values, capacity)
    chosen, left = [], capacity
    for i in sorted(items, key=lambda i: -values[i] / weights[i]):
        if weights[i] <= left:
            chosen.append(i)
            left -= weights[i]
    single = max(items, key=lambda i: values[i], default=None)
    if single is not None and values[single] > sum(values[i] for i in chosen):
        return [single]
    return sorted(chosen)


def upper_bound(weights: Sequence[int], values: Sequence[float], capacity: int) -> float:
    """What no set can exceed: the value when the last item may be cut (Dantzig's bound)."""
    items = _worth_taking(weights, values, capacity)
    total, left = 0.0, capacity
    for i in sorted(items, key=lambda i: -values[i] / weights[i]):
        if weights[i] > left:
            return total + values[i] * left / weights[i]
        total += values[i]
        left -= weights[i]
    return total


def solve(weights: Sequence[int], values: Sequence[float], capacity: int) -> tuple[list[int], bool]:
    """The exact answer where that is feasible, else the greedy one; and whether it is exact. Raises as `exact` does."""
    if len(weights) * (capacity + 1) > MOST_CELLS:
        return greedy(weights, values, capacity), False
    return exact(weights, values, capacity), True


def _worth_taking(weights: Sequence[int], values: Sequence[float], capacity: int) -> list[int]:
    checked: npt.NDArray[np.float64] = np.asarray(values, float)
    if len(weights) != len(values) or not np.isfinite(checked).all() or any(w < 1 for w in weights):
        raise ValueError("each item needs a weight of at least 1 and a finite value")
    return [i for i, (w, v) in enumerate(zip(weights, values, strict=True)) if v > 0 and w <= capacity]
