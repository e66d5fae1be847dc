"""The knapsack finds what trying everything finds, and its weights and values are those of EchoLM §4.3.2."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.kv_plan.knapsack import kept_in_cache

ITEMS = st.lists(st.tuples(st.integers(1, 12), st.floats(-2, 10)), max_size=9)


def best_of_all(weights: list[int], values: list[float], capacity: int) -> float:
    return max(
        sum(v for v, take in zip(values, taken, strict=True) if take)
        for taken in product((False, True), repeat=len(weights))
        if sum(w for w, take in zip(weights, taken, strict=True) if take) <= capacity
    )


@given(ITEMS, st.integers(0, 40))
def test_it_is_as_good_as_trying_everything(items: list[tuple[int, float]], capacity: int) -> None:
    weights, values = [w for w, _ in items], [v for _, v in items]
    uses = [v / w for w, v in items]
    chosen = kept_in_cache(
        weights, uses, capacity_bytes=capacity, bytes_per_token=1, compute_ms_per_token=1.0, block_tokens=1
    )
    assert chosen == sorted(set(chosen)) and sum(weights[i] for i in chosen) <= capacity
    assert sum(values[i] for i in chosen) == pytest.approx(best_of_all(weights, values, capacity), abs=1e-9)


def test_a_memory_worked_by_hand() -> None:
    # Milliseconds saved per use: 0.5 to compute a token, 5 + 0.1 per token to load.
    # 160 tokens: 10 blocks, (80 - 21) x 4 = 236. 40: 3 blocks, (20 - 9) x 3 = 33. 30: 2 blocks, (15 - 8) x 1 = 7.
    def kept(capacity_blocks: int) -> list[int]:
        return kept_in_cache(
            [160, 40, 30],
            [4.0, 3.0, 1.0],
            capacity_bytes=capacity_blocks * 16 * 2048,
            bytes_per_token=2048,
            compute_ms_per_token=0.5,
            load_ms=5.0,
            load_ms_per_token=0.1,
        )

    assert [kept(blocks) for blocks in (1, 4, 9, 12, 13, 15)] == [[], [1], [1, 2], [0, 2], [0, 1], [0, 1, 2]]


def test_what_loads_slower_than_it_is_computed_is_not_kept() -> None:
    assert (
        kept_in_cache(
            [10], [1.0], capacity_bytes=10**6, bytes_per_token=1, compute_ms_per_token=0.1, load_ms=2.0
        )
        == []
    )


@pytest.mark.parametrize(("tokens", "uses"), [([0], [1.0]), ([1], [float("nan")]), ([1, 2], [1.0])])
def test_nonsense_is_refused(tokens: list[int], uses: list[float]) -> None:
    with pytest.raises(ValueError, match=r"at least 1|shorter"):
        kept_in_cache(tokens, uses, capacity_bytes=100, bytes_per_token=1, compute_ms_per_token=1.0)
