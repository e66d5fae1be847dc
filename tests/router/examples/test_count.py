"""Other numbers of examples are tried as often as the log says, and never more than allowed."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from router.examples.count import RUNGS, Count, Knobs, drawn


@pytest.mark.parametrize(("best", "beside"), [(0, {1}), (1, {0, 2}), (5, {3, 8}), (4, {3, 5}), (8, {5})])
def test_the_logged_probabilities_are_the_frequencies(best: int, beside: set[int]) -> None:
    rng, knobs = random.Random(3), Knobs(explore_share=0.4)
    found = Counter(drawn(best, 8, knobs, rng) for _ in range(4000))
    assert {each.number for each in found if each.explored} == beside
    for each, times in found.items():
        assert times / 4000 == pytest.approx(each.probability, abs=0.03)


def test_no_number_above_the_limit_is_tried() -> None:
    rng = random.Random(3)
    tried = {drawn(5, 5, Knobs(explore_share=1.0), rng).number for _ in range(50)}
    assert tried == {3}
    assert drawn(0, 0, Knobs(explore_share=1.0), rng) == Count(0, 1.0, explored=False)


def test_without_a_share_nothing_is_tried() -> None:
    for best in RUNGS:
        assert drawn(best, 8, Knobs(explore_share=0.0), random.Random(0)) == Count(best, 1.0, explored=False)
