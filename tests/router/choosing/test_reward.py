"""The reward, by numbers worked out by hand."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.choosing import reward as module
from router.choosing.reward import Weights, expected_reward, expected_utility, reward, utility, weights

SHARES = st.floats(0, 1)


def test_its_own_examples_hold() -> None:
    assert doctest.testmod(module).failed == 0


def test_at_the_middle_not_paying_is_worth_fifteen_points_of_quality() -> None:
    dial = weights(0.5)
    # w_q = 0.5 / (0.5 + 0.15 * 0.5) = 1 / 1.15; cost and latency share the rest.
    assert dial.quality == pytest.approx(1 / 1.15)
    free = reward(dial, 0.85, 0.0, 0.0)
    dear = reward(dial, 1.0, 1.0, 1.0)
    assert free == pytest.approx(dear)


@pytest.mark.parametrize(("quality", "expected"), [(1.0, 1.0), (0.7, 0.7), (0.5, 0.3), (0.0, -0.7)])
def test_the_penalty_begins_at_a_large_gap(quality: float, expected: float) -> None:
    assert utility(quality) == pytest.approx(expected)


def test_where_the_reference_fails_too_no_gap_is_large() -> None:
    assert utility(0.0, reference_quality=0.2) == 0.0


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_any_dial_gives_weights_that_sum_to_one(preference: float) -> None:
    dial = weights(preference)
    assert sum(dial.as_tuple()) == pytest.approx(1.0)
    assert min(dial.as_tuple()) >= 0.0


@given(SHARES, SHARES, SHARES, SHARES, SHARES)
def test_more_quality_never_costs_reward_and_more_cost_never_earns_any(
    preference: float, a: float, b: float, cost: float, latency: float
) -> None:
    dial, low, high = weights(preference), min(a, b), max(a, b)
    assert reward(dial, low, cost, latency) <= reward(dial, high, cost, latency) + 1e-12
    assert reward(dial, a, high, latency) <= reward(dial, a, low, latency) + 1e-12


@given(SHARES, SHARES)
def test_the_dial_moves_the_weight_on_quality_one_way(a: float, b: float) -> None:
    assert weights(min(a, b)).quality <= weights(max(a, b)).quality
    assert weights(0.0) == Weights(0.0, 0.8, 0.2)


@given(st.floats(0, 1), st.floats(0, 1))
def test_what_is_expected_is_the_mean_over_what_may_come(quality: float, reference: float) -> None:
    rng = np.random.default_rng(0)
    right, by_reference = rng.random(4000) < quality, rng.random(4000) < reference
    seen = [utility(float(a), float(b)) for a, b in zip(right, by_reference, strict=True)]
    assert expected_utility(quality, reference) == pytest.approx(np.mean(seen), abs=0.06)
    # The penalty is convex: single answers that are wholly wrong cost more than their mean.
    assert expected_utility(quality, reference) <= utility(quality, reference) + 1e-9


def test_the_reference_never_loses_against_itself() -> None:
    assert expected_reward(Weights(1.0, 0.0, 0.0), 0.7, 1.0, 1.0, None) == 0.7
    assert expected_reward(Weights(1.0, 0.0, 0.0), 0.7, 1.0, 1.0, 0.7) < 0.7
