"""Intervals hold the truth about as often as they say, and a difference that is there is shown."""

from __future__ import annotations

import numpy as np
import pytest

from loadtest.bootstrap import expanded_tail, ratio_of


@pytest.mark.parametrize("blocks", [6, 8, 12])
def test_two_equal_endpoints_seldom_differ(blocks: int) -> None:
    rng = np.random.default_rng(5)
    wrong = 0
    for k in range(300):
        before, after = (rng.lognormal(0, 0.1, blocks).tolist() for _ in range(2))
        ratio = ratio_of(before, after, seed=k)
        assert ratio is not None
        wrong += ratio.differs
    assert wrong / 300 < 0.10


def test_a_difference_is_found_and_has_its_size() -> None:
    rng = np.random.default_rng(6)
    before = rng.lognormal(0, 0.05, 8)
    ratio = ratio_of(before.tolist(), (before * 1.3 * rng.lognormal(0, 0.02, 8)).tolist())
    assert ratio is not None and ratio.differs and ratio.low is not None and ratio.high is not None
    assert ratio.value == pytest.approx(1.3, rel=0.05) and ratio.low < ratio.value < ratio.high


def test_too_few_blocks_give_a_ratio_without_an_interval() -> None:
    ratio = ratio_of([1.0, 2.0], [2.0, 4.0])
    assert ratio is not None and ratio.value == pytest.approx(2.0)
    assert ratio.low is None and not ratio.differs


@pytest.mark.parametrize(("before", "after"), [([], []), ([1.0], [1.0, 2.0]), ([0.0], [1.0])])
def test_what_cannot_be_divided_has_no_ratio(before: list[float], after: list[float]) -> None:
    assert ratio_of(before, after) is None


def test_many_blocks_need_no_widening() -> None:
    assert expanded_tail(10_000) == pytest.approx(0.025, abs=1e-4)
    assert expanded_tail(4) < expanded_tail(8) < 0.025
