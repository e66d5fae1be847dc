"""The set with the most expected quality is sent: how many and which follows from what was learnt of sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.chat import ChatRequest
from router.examples.combiner import Combination, combine, hot_first, room_tokens, with_worths
from router.examples.set_quality import UNLEARNT, UNLEARNT_MOST, SetQuality
from router.plan import Candidate
from router.prompt import example_tokens
from store.records import Example

ONE = SetQuality(alone=0.3, one=0.6, vote=0.0, displaced=0.0, each=0.02)
VOTE = SetQuality(alone=0.3, one=0.0, vote=0.7, displaced=0.2, each=0.005)
PLENTY = 100_000


def candidate(id: int, worth: float | None, answer: str = "", characters: int = 40) -> Candidate:
    kept = Example(id, id, "t", "s", "q" * characters, answer or f"answer {id}", "large", 0.0)
    return Candidate(kept, 0.9, gain=worth)


def chosen(candidates: Sequence[Candidate], quality: SetQuality, **changes: Any) -> Combination:
    given: dict[str, Any] = {"most": 8, "budget_tokens": PLENTY}
    return combine(candidates, quality=quality, **(given | changes))


def ids(found: Combination) -> list[int]:
    return [c.example.id for c in found.chosen]


def test_before_anything_is_learnt_the_best_five_are_sent_the_best_next_to_the_question() -> None:
    some = [candidate(n, 0.1 * n) for n in range(8)]
    assert ids(chosen(some, UNLEARNT)) == [3, 4, 5, 6, 7] and UNLEARNT_MOST == 5
    assert ids(chosen(some, UNLEARNT, most=2)) == [6, 7]


def test_where_one_is_enough_a_sure_one_is_sent_alone_and_of_doubtful_ones_each_answer_once() -> None:
    sure = [candidate(1, 0.98), candidate(2, 0.9), candidate(3, 0.9)]
    assert ids(chosen(sure, ONE)) == [1]
    doubtful = [candidate(1, 0.5, "a"), candidate(2, 0.45, "a"), candidate(3, 0.4, "b")]
    assert set(ids(chosen(doubtful, ONE))) == {1, 3}


def test_where_several_vote_those_with_the_same_answer_are_sent_together() -> None:
    some = [*(candidate(n, 0.9, "a") for n in range(4)), *(candidate(n, 0.1, "b") for n in range(4, 9))]
    assert set(ids(chosen(some, VOTE))) == {0, 1, 2, 3}


@pytest.mark.parametrize("quality", [ONE, VOTE])
def test_where_nothing_is_relevant_nothing_is_sent(quality: SetQuality) -> None:
    found = chosen([candidate(n, 0.01) for n in range(20)], quality)
    assert found.chosen == () and found.quality_with == quality.alone
    assert set(found.left_out.values()) == {"adds_too_little"}


def test_a_number_that_is_tried_is_sent_whether_it_helps_or_not() -> None:
    some = [candidate(n, 0.01) for n in range(20)]
    assert len(ids(chosen(some, ONE, number=3))) == 3
    assert ids(chosen(some, ONE, number=0)) == []
    assert len(ids(chosen(some[:2], ONE, number=3))) == 2, "as many as there are"


def test_the_budget_holds_and_a_long_example_is_skipped_for_the_next() -> None:
    long, short = candidate(1, 0.9, characters=4000), candidate(2, 0.5)
    found = chosen([long, short], ONE, budget_tokens=100)
    assert ids(found) == [2] and found.left_out == {1: "no_room"}
    assert found.tokens == example_tokens(short)


def test_examples_without_a_worth_are_never_sent() -> None:
    found = chosen([candidate(1, None), candidate(2, float("nan"))], UNLEARNT)
    assert found.chosen == () and set(found.left_out.values()) == {"not_scored"}


def test_enough_is_said_of_the_others_where_as_many_as_allowed_are_sent() -> None:
    found = chosen([candidate(n, 0.4) for n in range(5)], ONE, most=2)
    assert len(found.chosen) == 2 and set(found.left_out.values()) == {"enough"}


def test_no_examples_are_no_set() -> None:
    assert chosen([], ONE) == Combination((), 0.3, 0)
    assert chosen([candidate(1, 0.9)], ONE, most=0).chosen == ()


@given(st.lists(st.floats(0, 1), max_size=20), st.sampled_from([ONE, VOTE]), st.integers(0, 8))
def test_a_set_is_never_expected_to_be_worse_than_none_and_never_larger_than_allowed(
    worths: list[float], quality: SetQuality, most: int
) -> None:
    some = [candidate(n, worth, "ab"[n % 2]) for n, worth in enumerate(worths)]
    found = chosen(some, quality, most=most)
    assert found.quality_with >= quality.alone and len(found.chosen) <= most
    assert len(found.left_out) == len(some) - len(found.chosen)


def test_in_the_stable_order_what_the_engine_keeps_warm_comes_first() -> None:
    some = [candidate(1, 0.9), candidate(2, 0.8), candidate(3, 0.7)]
    found = chosen(some, UNLEARNT, order="stable", hot={3: 0})
    assert ids(found) == [3, 1, 2] == [c.example.id for c in hot_first(some[::-1], {3: 0})]


def test_worths_are_given_in_order_and_to_each() -> None:
    some = [candidate(1, None), candidate(2, None)]
    assert [c.gain for c in with_worths(some, [0.25, 0.5])] == [0.25, 0.5]
    with pytest.raises(ValueError):
        with_worths(some, [0.1])


@pytest.mark.parametrize(("context", "room"), [(None, 500), (10_000, 500), (600, 82), (100, 0)])
def test_examples_have_the_room_that_the_operator_and_the_window_leave(
    context: int | None, room: int
) -> None:
    chat = ChatRequest(
        b"", {}, "m", [{"role": "user", "content": "x" * 8}], stream=False, include_usage=False
    )
    assert room_tokens(chat, max_example_tokens=500, context_tokens=context) == room
