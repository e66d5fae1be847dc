"""Releases add up, shares keep the budget, noise and threshold are what the proofs ask for."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learning.private.budget import (
    PrivacyBudget,
    Spent,
    epsilon_of,
    fits,
    share,
    threshold_for,
    together,
    variance_for,
)


def test_nothing_released_costs_nothing_and_slips_alone_can_use_delta_up() -> None:
    assert epsilon_of(Spent(), 1e-6) == 0.0
    assert epsilon_of(Spent(0.1, 1e-6), 1e-6) == math.inf


def test_the_accountants_epsilon_is_at_most_the_textbook_conversion() -> None:
    rho, delta = 0.25, 5e-7
    textbook = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    assert 0.5 * textbook < epsilon_of(Spent(rho, 0.0), delta) <= textbook


@pytest.mark.parametrize("releases", [1, 4, 12])
def test_equal_shares_keep_the_budget_to_the_last_and_not_one_further(releases: int) -> None:
    budget = PrivacyBudget(3.0, 1e-6)
    each = share(budget, releases)
    for done in range(releases):
        assert fits(budget, together([each] * done), each)
    assert not fits(budget, together([each] * releases), each)


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-4, 5), st.floats(1e-12, 1e-4), st.integers(1, 200))
def test_noise_costs_no_more_than_it_may_and_the_threshold_hides_who_stands_alone(
    rho: float, slip: float, bins: int
) -> None:
    release = Spent(rho, slip)
    variance = variance_for(release, bins)
    assert bins / (2 * float(variance)) <= rho
    t = threshold_for(release, bins, variance)
    # P(1 + X >= t) for the discrete Gaussian itself, summed term by term.
    v = float(variance)
    span = range(-int(12 * math.sqrt(v)) - 5, int(12 * math.sqrt(v)) + 6)
    total = math.fsum(math.exp(-x * x / (2 * v)) for x in span)
    tail = math.fsum(math.exp(-x * x / (2 * v)) for x in span if 1 + x >= t) / total
    assert bins * tail <= slip * (1 + 1e-6)
    assert threshold_for(release, bins, variance + Fraction(100)) >= t
