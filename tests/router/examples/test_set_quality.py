"""What a set of examples is worth: one that is right is enough, or several vote, as its coefficients say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.examples.set_quality import SetQuality, coefficients, same_answer, terms_of_prefixes

WORTHS = st.lists(st.tuples(st.floats(0, 1), st.sampled_from("abc")), min_size=1, max_size=8)


def test_examples_with_the_same_answer_count_once_where_one_is_enough() -> None:
    same = terms_of_prefixes([0.5, 0.5], ["a", "a"])[-1]
    other = terms_of_prefixes([0.5, 0.5], ["a", "b"])[-1]
    assert same[0] == pytest.approx(0.5) and other[0] == pytest.approx(0.75)
    assert same[1] == other[1] == pytest.approx(1 / 3), "as votes they count alike"


def test_quality_is_what_the_engine_knows_and_what_the_set_adds_and_takes() -> None:
    quality = SetQuality(alone=0.3, one=0.5, vote=0.2, displaced=0.1, each=0.01)
    terms = terms_of_prefixes([0.8], ["a"])[0]
    assert terms == pytest.approx((0.8, 0.4, -0.5, -1.0))
    assert quality.of(terms) == pytest.approx(0.3 + 0.5 * 0.8 + 0.2 * 0.4 - 0.1 * 0.5 - 0.01)


@given(WORTHS)
def test_each_prefix_is_the_set_of_its_examples_in_any_order(pairs: list[tuple[float, str]]) -> None:
    worths, answers = [w for w, _ in pairs], [a for _, a in pairs]
    found = terms_of_prefixes(worths, answers)
    assert len(found) == len(pairs)
    for one, vote, displaced, each in found:
        assert 0.0 <= one <= 1.0 and 0.0 <= vote < 1.0 and -1.0 < displaced < 0.0 and each <= -1.0
    turned = terms_of_prefixes(worths[::-1], answers[::-1])[-1]
    assert turned == pytest.approx(found[-1], abs=1e-6)


def test_five_numbers_from_nought_are_coefficients_and_nothing_else() -> None:
    assert coefficients([0.3, 0, 1, 0, 0]) == SetQuality(0.3, 0.0, 1.0, 0.0, 0.0)
    for wrong in ([0.3], [0.3, 0, 0, 0, -1], [0.3, 0, 0, 0, float("nan")]):
        with pytest.raises(ValueError, match="five"):
            coefficients(wrong)


def test_case_and_surrounding_space_make_no_other_answer() -> None:
    assert same_answer(" Card arrival\n") == same_answer("card ARRIVAL")
