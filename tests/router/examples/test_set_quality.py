"""Single effects become a set's quality: independent chances to be right, shares spoilt."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.examples.set_quality import EPSILON, effects, set_quality

qualities = st.floats(0.01, 0.99)
sets = st.lists(qualities, max_size=8)


@given(qualities)
def test_no_example_leaves_the_quality_as_it_was(alone: float) -> None:
    assert set_quality(alone, []) == pytest.approx(alone)


@given(qualities, qualities)
def test_one_example_gives_its_own_quality(alone: float, with_one: float) -> None:
    assert set_quality(alone, [with_one]) == pytest.approx(with_one)


@given(qualities, sets, qualities)
def test_what_helps_never_lowers_and_what_harms_never_raises(
    alone: float, others: list[float], one: float
) -> None:
    more, before = float(set_quality(alone, [*others, one])), float(set_quality(alone, others))
    assert 0.0 <= more <= 1.0
    assert more >= before - 1e-9 if one >= alone else more <= before + 1e-9


@given(qualities, sets, qualities)
def test_help_has_diminishing_returns(alone: float, others: list[float], one: float) -> None:
    helpful = [max(alone, w) for w in others]
    one = max(alone, one)
    first = float(set_quality(alone, [one]) - set_quality(alone, []))
    later = float(set_quality(alone, [*helpful, one]) - set_quality(alone, helpful))
    assert later <= first + 1e-9


def test_two_independent_halves_leave_a_quarter_wrong() -> None:
    assert set_quality(0.0, [0.5, 0.5]) == pytest.approx(0.75, abs=2 * EPSILON)
    assert set_quality(0.8, [0.4, 0.4]) == pytest.approx(0.2)


def test_vectors_of_requests_agree_with_one_at_a_time() -> None:
    generator = np.random.default_rng(0)
    alone, with_one = generator.random(5), generator.random((5, 3))
    together = set_quality(alone, with_one)
    assert together.shape == (5,)
    assert together == pytest.approx([float(set_quality(a, w)) for a, w in zip(alone, with_one, strict=True)])


@given(qualities, sets, sets)
def test_a_set_can_be_put_together_one_by_one(alone: float, chosen: list[float], rest: list[float]) -> None:
    parts = effects(alone, chosen)
    missed, kept = parts.misses.prod(), parts.keeps.prod()
    more = effects(alone, rest)
    by_steps = (1 - (1 - parts.alone) * missed * more.misses) * kept * more.keeps
    assert by_steps == pytest.approx([float(set_quality(alone, [*chosen, one])) for one in rest])


@pytest.mark.parametrize("alone", [-1.0, 0.0, 1.0, 2.0])
def test_the_ends_of_the_scale_give_finite_qualities(alone: float) -> None:
    for with_one in ([0.0], [1.0], [0.0, 1.0], [-3.0, 5.0]):
        assert 0.0 <= float(set_quality(alone, with_one)) <= 1.0
