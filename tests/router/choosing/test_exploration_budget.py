"""A key's share of explored decisions is kept, per key, in bounded memory."""

from __future__ import annotations

import pytest

from router.choosing.exploration_budget import ExplorationBudget


def explored(budget: ExplorationBudget, key: str, decisions: int, now_s: float = 0.0) -> int:
    found = 0
    for _ in range(decisions):
        if budget.allows(key, now_s):
            budget.spent(key, now_s)
            found += 1
    return found


def test_one_that_explores_whenever_it_may_stays_within_the_share() -> None:
    assert explored(ExplorationBudget(0.1), "a", 1000) == pytest.approx(100, abs=2)


def test_keys_do_not_share_a_budget() -> None:
    budget = ExplorationBudget(0.1)
    for _ in range(5):
        budget.spent("a", 0.0)
    assert not budget.allows("a", 0.0)
    assert budget.allows("b", 0.0)


def test_a_share_of_zero_never_explores_and_one_of_one_always() -> None:
    assert explored(ExplorationBudget(0.0), "a", 50) == 0
    assert explored(ExplorationBudget(1.0), "a", 50) == 50


def test_what_was_spent_long_ago_is_forgotten() -> None:
    budget = ExplorationBudget(0.1, window_s=60.0)
    for _ in range(50):
        budget.spent("a", 0.0)
    assert not budget.allows("a", 1.0)
    assert explored(budget, "a", 100, now_s=1200.0) >= 9


def test_a_clock_set_back_harms_nothing() -> None:
    budget = ExplorationBudget(0.1)
    explored(budget, "a", 10, now_s=100.0)
    assert explored(budget, "a", 100, now_s=50.0) <= 11


def test_only_so_many_keys_are_remembered() -> None:
    budget = ExplorationBudget(0.1, keys=2)
    for key in "abc":
        explored(budget, key, 5)
    assert budget.allows("a", 0.0)


def test_settings_that_cannot_be_are_refused() -> None:
    for arguments in ({"share": 1.5}, {"window_s": 0.0}, {"keys": 0}):
        with pytest.raises(ValueError, match="share"):
            ExplorationBudget(**arguments)  # type: ignore[arg-type]
