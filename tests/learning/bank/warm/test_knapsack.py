"""The exact solver is exact, the greedy one never below half of it, and neither takes more than fits."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learning.bank.warm import knapsack as kv_knapsack
from learning.bank.warm.knapsack import exact, greedy, solve, upper_bound

ITEMS = st.lists(st.tuples(st.integers(1, 12), st.floats(-2, 10)), max_size=9)


def best_of_all(weights: list[int], values: list[float], capacity: int) -> float:
    return max(
        sum(v for v, take in zip(values, taken, strict=True) if take)
        for taken in product((False, True), repeat=len(weights))
        if sum(w for w, take in zip(weights, taken, strict=True) if take) <= capacity
    )


@given(ITEMS, st.integers(0, 40))
def test_exact_is_as_good_as_trying_everything(items: list[tuple[int, float]], capacity: int) -> None:
    weights, values = [w for w, _ in items], [v for _, v in items]
    best = best_of_all(weights, values, capacity)
    chosen, bounded = exact(weights, values, capacity), greedy(weights, values, capacity)
    for each in (chosen, bounded):
        assert each == sorted(set(each)) and sum(weights[i] for i in each) <= capacity
    got = sum(values[i] for i in chosen)
    assert got == pytest.approx(best, abs=1e-9)
    assert sum(values[i] for i in bounded) >= best / 2 - 1e-9
    assert upper_bound(weights, values, capacity) >= best - 1e-9


def test_greedy_is_caught_where_it_fails() -> None:
    weights, values, capacity = [1, 10], [2.0, 10.0], 10
    assert exact(weights, values, capacity) == [1]
    assert greedy(weights, values, capacity) == [1], "the single best item saves it"
    weights, values, capacity = [6, 5, 5], [6.6, 5.0, 5.0], 10
    assert greedy(weights, values, capacity) == [0]
    assert exact(weights, values, capacity) == [1, 2]


@pytest.mark.parametrize(("weights", "values"), [([0], [1.0]), ([1], [float("nan")]), ([1, 2], [1.0])])
def test_nonsense_is_refused(weights: list[int], values: list[float]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        solve(weights, values, 3)


def test_what_is_too_large_for_the_exact_solver_is_solved_greedily_and_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kv_knapsack, "MOST_CELLS", 20)
    assert solve([6, 5, 5], [6.6, 5.0, 5.0], 10) == ([0], False)
    with pytest.raises(ValueError, match="too much"):
        exact([6, 5, 5], [6.6, 5.0, 5.0], 10)
