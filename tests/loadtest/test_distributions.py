"""Distributions as they are written on the command line."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.distributions import parse_distribution


@given(
    st.sampled_from(["fixed:7", "uniform:1,9", "normal:3,20", "lognormal:5,2", "exp:4", "12", "exp:0"]),
    st.integers(),
)
def test_draws_are_never_negative_and_counts_never_below_one(text: str, seed: int) -> None:
    shape, rng = parse_distribution(text), random.Random(seed)
    assert shape.draw(rng) >= 0
    assert shape.draw_count(rng) >= 1


def test_a_lognormal_is_given_by_its_median() -> None:
    rng, shape = random.Random(1), parse_distribution("lognormal:50,0.5")
    assert statistics.median(shape.draw(rng) for _ in range(4000)) == pytest.approx(50, rel=0.05)


def test_what_is_printed_can_be_read_again() -> None:
    for text in ("fixed:7", "uniform:1,9", "lognormal:120,0.6"):
        assert str(parse_distribution(text)) == text


@pytest.mark.parametrize(
    "text", ["", "uniform:3", "uniform:9,1", "zipf:1", "fixed:-1", "normal:nan,1", "fixed:a"]
)
def test_nonsense_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"distribution|uniform") as error:
        parse_distribution(text)
    assert repr(text) in str(error.value)
