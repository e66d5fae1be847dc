from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learning.evaluation.intervals import FEW, Interval, Ratio, bootstrap, widened


def mean_of(values: np.ndarray) -> Ratio:
    return Ratio(values, np.ones(len(values)))


def test_the_interval_of_a_mean_agrees_with_the_textbook_where_the_textbook_is_right() -> None:
    values = np.random.default_rng(1).normal(3.0, 2.0, 2000)
    [(value, interval)] = bootstrap([mean_of(values)], resamples=2000)
    half = 1.96 * values.std() / math.sqrt(len(values))
    assert value == pytest.approx(values.mean())
    assert interval.low == pytest.approx(values.mean() - half, abs=0.15 * half)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.15 * half)


def test_skewed_weights_are_covered_more_often_than_by_a_normal_interval() -> None:
    covered = normal = 0
    for seed in range(120):
        values = np.random.default_rng(seed).lognormal(0.0, 1.2, 60)
        truth = math.exp(0.72)
        [(value, interval)] = bootstrap([mean_of(values)], resamples=300, seed=seed)
        half = 1.96 * values.std() / math.sqrt(len(values))
        covered += interval.low <= truth <= interval.high
        normal += value - half <= truth <= value + half
    assert covered > normal
    assert covered >= 0.87 * 120


def test_several_ratios_share_resamples_and_come_out_as_they_would_alone() -> None:
    rng = np.random.default_rng(2)
    one, other = mean_of(rng.random(300)), Ratio(rng.random(300), rng.random(300) + 0.5)
    for together, alone in zip(bootstrap([one, other], seed=5), (one, other), strict=True):
        [(value, interval)] = bootstrap([alone], seed=5)
        assert together == (pytest.approx(value), pytest.approx(interval))


def test_the_same_seed_gives_the_same_interval_and_another_seed_hardly_another() -> None:
    values = mean_of(np.random.default_rng(3).random(500))
    assert bootstrap([values], seed=1) == bootstrap([values], seed=1)
    assert bootstrap([values], seed=1)[0][1].low == pytest.approx(
        bootstrap([values], seed=2)[0][1].low, abs=0.01
    )


def test_where_nothing_was_seen_nothing_is_claimed() -> None:
    [(value, interval)] = bootstrap([Ratio(np.zeros(50), np.zeros(50))])
    assert math.isnan(value)
    assert interval == Interval(-math.inf, math.inf)
    assert widened(interval, 0.0, 0.0, (0.0, 1.0)) == Interval(0.0, 1.0)


def test_few_successes_in_a_row_do_not_make_a_certainty() -> None:
    found = widened(Interval(1.0, 1.0), 1.0, 12.0, (0.0, 1.0))
    assert found.low < 0.85
    assert found.high == 1.0


def test_values_that_hardly_differ_are_believed_to_as_far_as_there_are_enough_of_them() -> None:
    def width(samples: float, dispersion: float) -> float:
        found = widened(Interval(0.5, 0.5), 0.5, samples, (0.0, 1.0), dispersion=dispersion)
        return found.high - found.low

    assert width(90, 0.0) < 0.3 * width(90, 1.0)
    assert width(3, 0.0) > 0.3


@settings(max_examples=60, deadline=None)
@given(low=st.floats(-2, 2), high=st.floats(-2, 2), mean=st.floats(0, 1), samples=st.floats(0, 500))
def test_an_interval_never_leaves_the_bounds_and_is_only_ever_widened_within_them(
    low: float, high: float, mean: float, samples: float
) -> None:
    low, high = min(low, high), max(low, high)
    found = widened(Interval(low, high), mean, samples, (0.0, 1.0))
    assert 0.0 <= found.low <= found.high <= 1.0
    assert found.low <= min(1.0, max(0.0, low)) and found.high >= max(0.0, min(1.0, high))
    if samples >= FEW and 0.0 < low < high < 1.0:
        assert found == Interval(low, high)


@pytest.mark.parametrize(("n", "resamples", "level"), [(0, 1000, 0.95), (5, 10, 0.95), (5, 1000, 1.0)])
def test_impossible_requests_are_refused(n: int, resamples: int, level: float) -> None:
    with pytest.raises(ValueError, match="requests"):
        bootstrap([mean_of(np.ones(n))], resamples=resamples, level=level)
