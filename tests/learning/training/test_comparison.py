"""A comparison is over the same outcomes, with an interval that widens where there are few."""

from __future__ import annotations

import numpy as np
import pytest

from learning.training.comparison import comparison


def test_both_and_their_difference_are_told_with_intervals() -> None:
    rng = np.random.default_rng(3)
    before = rng.uniform(0.2, 0.6, 400)
    told = comparison("squared_error", before, before - 0.1, with_built_in=True)
    assert told is not None and (told["outcomes"], told["built_in_before"]) == (400, True)
    assert told["before"]["low"] < told["before"]["mean"] < told["before"]["high"]
    assert told["change"]["mean"] == pytest.approx(-0.1) and told["change"]["high"] < 0


def test_few_outcomes_say_little() -> None:
    rng = np.random.default_rng(4)
    values = rng.uniform(0.3, 0.7, 200)
    few, many = (
        comparison("quality", values[:n], values[:n] + 0.1 * rng.normal(size=n), with_built_in=False)
        for n in (8, 200)
    )
    assert few is not None and many is not None
    width = [one["before"]["high"] - one["before"]["low"] for one in (few, many)]
    assert width[0] > 2 * width[1]
    assert comparison("quality", values[:1], values[:1], with_built_in=False) is None


def test_the_interval_of_a_change_holds_the_true_one_in_19_of_20() -> None:
    held = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        before = rng.beta(2, 5, 80)
        after = np.clip(before + rng.normal(0.05, 0.1, 80), 0, 1)
        told = comparison("quality", before, after, with_built_in=False)
        assert told is not None
        held += told["change"]["low"] <= 0.052 <= told["change"]["high"]
    assert held >= 54


def test_weights_count() -> None:
    before, after = np.array([0.0, 1.0, 0.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0])
    told = comparison("agreement", before, after, np.array([1.0, 3.0, 1.0, 3.0]), with_built_in=False)
    assert told is not None and told["before"]["mean"] == 0.75 and told["after"]["mean"] == 1.0
