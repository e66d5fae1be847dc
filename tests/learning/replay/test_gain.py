"""Gain against figures worked out by hand, and what must hold of it whatever the figures."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learning.replay.gain import UNJUDGED, correction, gain, model_cost
from store.examples.accounting import accumulated, decayed

HOUR = 3600.0
NOW = 1_790_000_000.0
SHARE = st.floats(0, 1)


def test_gain_worked_out_by_hand() -> None:
    # A model of half the dearest's cost answered with quality 0.2, three times: at once, an hour later, three hours later.
    once = gain(0.5, 0.2)
    assert once == pytest.approx(0.4)
    value, at_s = accumulated(0.0, 0.0, once, NOW)
    value, at_s = accumulated(value, at_s, once, NOW + HOUR)
    assert value == pytest.approx(0.4 * 0.9 + 0.4)
    value, at_s = accumulated(value, at_s, once, NOW + 3 * HOUR)
    assert value == pytest.approx((0.4 * 0.9 + 0.4) * 0.81 + 0.4)
    assert at_s == NOW + 3 * HOUR
    assert decayed(value, at_s, at_s + HOUR) == pytest.approx(0.9 * 1.0156)


def test_a_free_model_or_a_perfect_answer_leaves_no_gain() -> None:
    assert gain(0.0, 0.0) == 0
    assert gain(1.0, 1.0) == 0
    assert gain(1.0, 0.0) == 1


@pytest.mark.parametrize(
    ("cost", "quality"), [(1.5, 0.5), (-0.1, 0.5), (0.5, 1.01), (0.5, -1), (math.nan, 0.5)]
)
def test_a_gain_of_figures_that_are_not_normalised_is_refused(cost: float, quality: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        gain(cost, quality)


@given(SHARE, st.lists(SHARE, min_size=1, max_size=4))
def test_whatever_becomes_known_and_in_which_order_the_gain_ends_at_the_mean(
    cost: float, qualities: list[float]
) -> None:
    total = gain(cost, UNJUDGED)
    for number in range(len(qualities)):
        total += correction(cost, qualities[:number], qualities[: number + 1])
    assert total == pytest.approx(gain(cost, sum(qualities) / len(qualities)), abs=1e-9)


def test_cost_is_relative_to_the_dearest_and_never_above_it() -> None:
    assert model_cost(0.6, 10.0) == pytest.approx(0.06)
    assert model_cost(20.0, 10.0) == 1
    assert model_cost(0.0, 0.0) == 1, "where nothing has a price all cost alike"
