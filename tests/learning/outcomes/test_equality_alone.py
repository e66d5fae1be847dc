"""Where no judge can be paid, equality alone tells only where answers mostly are equal, and only after that was tried."""

from __future__ import annotations

import random

import pytest

from learning.outcomes.equality_alone import EqualityAlone


def after(*equal: bool) -> EqualityAlone:
    made = EqualityAlone(random.Random(1))
    for each in equal:
        made.saw("key", equal=each)
    return made


@pytest.mark.parametrize(("equal", "counts"), [(19, False), (20, True)])
def test_nothing_counts_before_it_was_tried_and_then_everything(equal: int, counts: bool) -> None:
    made = after(*[True] * equal)
    assert made.worth_asking("key") and made.counts("key") is counts
    assert not made.counts("another") and made.worth_asking("another")


def test_where_answers_differ_it_hardly_ever_is_tried_again() -> None:
    made = after(*[True, True, False] * 10)
    assert not made.counts("key")
    assert 0 < sum(made.worth_asking("key") for _ in range(1000)) < 50


def test_an_engine_that_turns_bad_is_counted_for_that_and_then_not_at_all() -> None:
    made = after(*[True] * 20)
    counted = []
    for _ in range(5):
        counted.append(made.counts("key"))
        made.saw("key", equal=False)
    assert counted == [True, True, True, False, False]
