"""What is sent together: enough and no more, nothing twice, within the tokens there are."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.chat import ChatRequest
from router.examples.combiner import (
    HARM_BELIEVED,
    Combination,
    Knobs,
    combine,
    hot_first,
    room_tokens,
    with_gains,
)
from router.examples.set_quality import set_quality
from router.plan import Candidate
from router.prompt import example_tokens
from store.records import Example, Vector
from tests.knobs import combiner_knobs


def candidate(
    id: int,
    gain: float | None,
    *,
    answer: str | None = None,
    vector: Vector | None = None,
    characters: int = 40,
) -> Candidate:
    example = Example(
        id, id, "t", "s", "q" * characters, f"answer {id}" if answer is None else answer, "large", 0.0
    )
    return Candidate(example, 0.9, vector, None, gain)


def put(
    candidates: list[Candidate], alone: float = 0.3, most: int = 5, budget: int = 10_000, **knobs: Any
) -> Combination:
    # What others distract from has tests of its own; the rest is about sums that are easily checked.
    asked = combiner_knobs(**({"min_gain": 0.01, "distraction": 0.0} | knobs))
    return combine(candidates, quality_alone=alone, most=most, budget_tokens=budget, knobs=asked)


FREE = combiner_knobs(min_gain=0.0, redundancy=0.0, distraction=0.0)


def ids(combination: Combination) -> list[int]:
    return [c.example.id for c in combination.chosen]


def direction(degrees: float) -> Vector:
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], np.float32)


def test_no_example_is_the_answer_where_none_helps_enough() -> None:
    assert put([candidate(1, 0.02), candidate(2, -0.4), candidate(3, None)], min_gain=0.05) == Combination(
        (), 0.3, 0
    )
    assert put([]) == Combination((), 0.3, 0)
    assert put([candidate(1, 0.5)], most=0) == Combination((), 0.3, 0)


def test_among_strangers_only_a_real_promise_is_believed() -> None:
    small, large = [candidate(1, 0.018), candidate(2, 0.016)], [candidate(3, 0.4), candidate(4, 0.04)]
    unfamiliar = partial(combine, quality_alone=0.3, most=5, budget_tokens=10_000, familiar=False)
    none = unfamiliar(small, knobs=combiner_knobs(min_gain=0.01))
    assert (ids(none), none.left_out) == ([], {1: "unfamiliar", 2: "unfamiliar"})
    assert ids(unfamiliar(large, knobs=combiner_knobs(min_gain=0.01, distraction=0.0))) == [4, 3]
    assert ids(unfamiliar(small, knobs=combiner_knobs(min_gain=0.01, unfamiliar_min_help=0.0))) == [2, 1]
    assert ids(put(small, min_gain=0.01)) == [2, 1]


def test_what_was_not_scored_or_is_no_number_is_never_sent_even_when_nothing_is_asked_of_it() -> None:
    wrong = [candidate(1, None), candidate(2, float("nan")), candidate(3, 0.0), candidate(4, -0.1)]
    assert ids(put(wrong, min_gain=0.0)) == []
    assert ids(put(wrong, min_gain=-1.0)) == []
    assert ids(put([candidate(1, 0.5)], alone=float("nan"))) == []


def test_each_further_example_must_add_enough_to_what_is_there_already() -> None:
    alike = [candidate(i, 0.6) for i in range(5)]
    # 0.3 -> 0.9 -> 0.986 -> 0.998: the third adds 0.012.
    assert len(put(alike, min_gain=0.02, redundancy=0.0).chosen) == 2
    assert len(put(alike, min_gain=0.01, redundancy=0.0).chosen) == 3


def test_a_set_that_promises_too_little_is_not_sent_at_all() -> None:
    doubtful = [candidate(1, 0.02), candidate(2, 0.015), candidate(3, 0.01), candidate(4, None)]
    together = put(doubtful, min_promise=0.05)
    assert together == Combination((), 0.3, 0)
    assert together.left_out == dict.fromkeys((1, 2), "promises_too_little") | {
        3: "adds_too_little",
        4: "not_scored",
    }
    assert ids(put(doubtful, min_promise=0.03)) == [2, 1]
    assert put([*doubtful, candidate(5, 0.04)], min_promise=0.05).chosen, "together they may promise enough"
    assert ids(put([candidate(1, 0.06)], alone=0.96, min_promise=0.05)) == [], "no more than is missing"


def test_a_doubtful_example_is_sent_where_nothing_better_is_and_not_beside_a_sure_one() -> None:
    doubtful, sure = candidate(1, 0.04), candidate(2, 0.6)
    assert ids(put([doubtful], distraction=0.02)) == [1]
    assert ids(put([doubtful, sure], distraction=0.02, min_gain=0.0)) == [2]
    assert ids(put([doubtful, sure], distraction=0.0, min_gain=0.0)) == [1, 2]


def test_harm_counts_only_while_it_is_doubtful_that_any_example_helps() -> None:
    near_miss = replace(candidate(1, -0.02), effect=(0.1, 0.4))
    sure = replace(candidate(2, 0.5), effect=(0.7, 0.1))
    assert ids(put([near_miss], alone=0.3, min_gain=0.0)) == [1], "half of the harm is believed"
    assert ids(put([near_miss], alone=0.7, min_gain=0.0)) == [], "it would spoil more than it mends"
    assert ids(put([near_miss], alone=0.05, min_gain=0.0)) == [1], "there is hardly anything to be spoilt"
    together = put([near_miss, sure], alone=0.05, min_gain=0.0)
    assert ids(together) == [1, 2]
    missed = 0.9 * 0.3
    assert together.quality_with == pytest.approx(
        1 - missed + missed * 0.05 * (1 - 0.4 * HARM_BELIEVED) * (1 - 0.1 * HARM_BELIEVED)
    )


def test_what_an_example_distracts_another_from_is_part_of_what_is_expected() -> None:
    one, other = candidate(1, 0.35), candidate(2, 0.21)
    both = put([one, other], distraction=0.1, min_gain=0.0)
    undistracted = (1 - 0.1 * 0.5) * (1 - 0.1 * 0.7)
    missed = 0.5 * 0.7
    assert both.quality_with == pytest.approx((1 - missed) * undistracted + missed * 0.3)


def test_a_dear_example_must_add_what_its_tokens_cost() -> None:
    short, long = candidate(1, 0.20, characters=40), candidate(2, 0.25, characters=8000)
    assert ids(put([short, long], most=1)) == [2]
    assert ids(put([short, long], most=1, gain_per_ktok=0.1)) == [1]
    assert ids(put([long], gain_per_ktok=0.2)) == []


def test_the_expected_quality_is_what_the_set_formula_says() -> None:
    together = put([candidate(1, 0.2), candidate(2, 0.3)], redundancy=0.0)
    assert together.quality_with == pytest.approx(float(set_quality(0.3, [0.5, 0.6])))


def test_the_most_helpful_stands_last_or_the_oldest_first() -> None:
    some = [candidate(7, 0.3), candidate(3, 0.5), candidate(5, 0.1)]
    assert ids(put(some, min_gain=0.01)) == [5, 7, 3]
    assert ids(put(some, min_gain=0.01, order="stable")) == [3, 5, 7]


def test_a_stable_order_does_not_depend_on_gains() -> None:
    orders = {
        tuple(ids(put([candidate(i, g) for i, g in zip((4, 2, 9), gains, strict=True)], order="stable")))
        for gains in itertools.permutations((0.2, 0.3, 0.4))
    }
    assert orders == {(2, 4, 9)}


def test_the_same_answer_again_adds_little() -> None:
    twins = [
        candidate(1, 0.40, answer="Berlin. "),
        candidate(2, 0.39, answer="berlin."),
        candidate(3, 0.2, answer="Bonn"),
    ]
    assert ids(put(twins, most=2)) == [3, 1]
    assert ids(put(twins, most=2, redundancy=0.0)) == [2, 1]


def test_nearly_the_same_question_again_adds_little() -> None:
    near = [
        candidate(1, 0.40, vector=direction(0)),
        candidate(2, 0.39, vector=direction(2)),
        candidate(3, 0.2, vector=direction(60)),
        candidate(4, 0.1),
    ]
    assert ids(put(near, most=2)) == [3, 1]
    assert put(near, most=3).quality_with < put(near, most=3, redundancy=0.0).quality_with


def test_vectors_of_two_embedders_are_not_compared() -> None:
    mixed = [candidate(1, 0.4, vector=direction(0)), candidate(2, 0.3, vector=np.ones(3, np.float32))]
    assert ids(put(mixed)) == [2, 1]


def test_what_does_not_fit_makes_room_for_what_does() -> None:
    large, small = candidate(1, 0.5, characters=4000), candidate(2, 0.2, characters=40)
    together = put([large, small], budget=100)
    assert ids(together) == [2] and together.tokens == example_tokens(small) <= 100
    assert put([large, small], budget=0).chosen == ()


def test_gains_are_given_to_their_own_candidates_and_nothing_else_changes() -> None:
    some = [candidate(1, None, vector=direction(3)), candidate(2, 0.5)]
    scored = with_gains(some, [0.25, -0.125])
    assert [(c.gain, c.effect) for c in scored] == [(0.25, None), (-0.125, None)]
    told = with_gains(some, [0.25, -0.125], [(0.4, 0.1), (0.0, 0.2)])
    assert [(c.gain, c.effect) for c in told] == [(0.25, (0.4, 0.1)), (-0.125, (0.0, 0.2))]
    assert [replace(c, gain=old.gain) for c, old in zip(scored, some, strict=True)][1] == some[1]
    assert scored[0].vector is some[0].vector and scored[0].example is some[0].example
    with pytest.raises(ValueError, match="zip"):
        with_gains(some, [0.1])


def test_examples_leave_room_for_the_request_and_its_answer() -> None:
    messages = [{"role": "user", "content": "x" * 4000}]
    chat = ChatRequest(b"", {"max_tokens": 500}, "m", messages, False, False)
    assert room_tokens(chat, max_example_tokens=2000, context_tokens=None) == 2000
    assert room_tokens(chat, max_example_tokens=2000, context_tokens=2000) == 2000 - 500 - 1004
    assert room_tokens(chat, max_example_tokens=2000, context_tokens=1000) == 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-1, 1), st.integers(0, 400)), max_size=8),
    st.floats(0, 1),
    st.integers(0, 8),
    st.integers(0, 300),
    st.floats(0, 0.2),
    st.floats(0, 1),
)
def test_nothing_exceeds_its_bounds_whatever_the_gains(
    rows: list[tuple[float, int]],
    alone: float,
    most: int,
    budget: int,
    min_gain: float,
    redundancy: float,
) -> None:
    some = [candidate(i, gain, characters=size) for i, (gain, size) in enumerate(rows)]
    together = put(some, alone, most, budget, min_gain=min_gain, redundancy=redundancy)
    assert len(together.chosen) <= most
    assert together.tokens == sum(example_tokens(c) for c in together.chosen) <= max(budget, 0)
    assert len(set(ids(together))) == len(together.chosen)
    assert all((c.gain or 0) > 0 for c in together.chosen)
    assert 0 <= together.quality_with <= 1
    if together.chosen:
        assert together.quality_with >= alone - 1e-3


@settings(max_examples=40, deadline=None)
# Where nothing is ever right alone, the formula of sets holds that a little above nothing.
@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=7), st.floats(0.01, 0.9), st.integers(1, 4))
def test_without_prices_and_resemblance_no_set_of_that_size_is_better(
    gains: list[float], alone: float, most: int
) -> None:
    some = [candidate(i, gain) for i, gain in enumerate(gains)]
    together = combine(some, quality_alone=alone, most=most, budget_tokens=10_000, knobs=FREE)
    best = max(
        float(set_quality(alone, [alone + g for g in group]))
        for group in itertools.combinations(gains, min(most, len(gains)))
    )
    assert together.quality_with == pytest.approx(best, abs=1e-6)


def test_each_candidate_that_was_not_chosen_has_the_reason_that_kept_it_out() -> None:
    twin = {"answer": "the same", "vector": direction(0)}
    others = [
        candidate(1, 0.5, **twin),
        candidate(2, 0.45, **twin),
        candidate(3, None),
        candidate(4, 0.005),
        candidate(5, 0.3, characters=4000),
    ]
    assert put(others, budget=200, min_gain=0.02).left_out == {
        2: "redundant",
        3: "not_scored",
        4: "helps_too_little",
        5: "no_room",
    }
    assert put([candidate(1, 0.5), candidate(2, 0.4)], most=1).left_out == {2: "enough"}
    assert put([candidate(1, 0.5)], most=0).left_out == {1: "enough"}
    best, weak = candidate(1, 0.69), candidate(2, 0.05)
    assert put([best, weak], min_gain=0.04).left_out == {2: "adds_too_little"}


@settings(max_examples=150, deadline=None)
@given(
    # Not below what either formula calls nothing.
    gains=st.lists(st.floats(-0.3, 0.9).map(lambda gain: round(gain, 3)), max_size=12),
    alone=st.floats(0.001, 0.99),
    most=st.integers(1, 6),
    budget=st.integers(10, 300),
    price=st.sampled_from([0.0, 0.3]),
    min_gain=st.sampled_from([0.0, 0.02, 0.1]),
    angles=st.lists(st.integers(0, 60), min_size=12, max_size=12),
)
def test_looking_at_the_most_helpful_first_chooses_what_looking_at_all_of_them_does(
    gains: list[float],
    alone: float,
    most: int,
    budget: int,
    price: float,
    min_gain: float,
    angles: list[int],
) -> None:
    given_ = [
        candidate(i, gain, vector=direction(angles[i]), characters=40 + 7 * i) for i, gain in enumerate(gains)
    ]
    knobs = combiner_knobs(min_gain=min_gain, distraction=0.0, gain_per_ktok=price, redundant_from=0.8)
    left = {c.example.id: c for c in given_ if c.gain and c.gain > 0.0 and c.gain >= min_gain}
    held = min(1 - 1e-4, max(1e-4, alone))
    help_of = {
        id: max(0.0, 1 - (1 - min(1.0, alone + (c.gain or 0.0))) / (1 - held)) for id, c in left.items()
    }
    fresh = dict.fromkeys(left, 1.0)
    missed, room, expected = 1 - held, budget, set[int]()
    while left and len(expected) < most:
        adds = {id: missed * help_of[id] * fresh[id] for id in left}
        net = {id: adds[id] - example_tokens(left[id]) * price / 1000 for id in left}
        fit = [id for id in left if example_tokens(left[id]) <= room and adds[id] >= min_gain and net[id] > 0]
        if not fit:
            break
        best = max(fit, key=lambda id: net[id])
        expected.add(best)
        missed, room = missed - adds[best], room - example_tokens(left[best])
        for id in left:
            cosine = float(np.cos(np.radians(angles[id] - angles[best])))
            fresh[id] = min(fresh[id], 1 - 0.9 * max(0.0, (cosine - 0.8) / 0.2))
        del left[best]
    combined = combine(given_, quality_alone=alone, most=most, budget_tokens=budget, knobs=knobs)
    assert len(combined.chosen) == len(expected)
    # Of two that add the same to the last digit either may be chosen.
    assert combined.quality_with == pytest.approx(1 - missed if expected else alone, abs=1e-4)
    assert combined.tokens <= budget


def ids_of(chosen: tuple[Candidate, ...]) -> list[int]:
    return [c.example.id for c in chosen]


def test_hot_ones_stand_first_in_their_order_and_the_rest_by_age() -> None:
    chosen = [candidate(n, 0.3) for n in (7, 3, 9, 4)]
    assert ids_of(hot_first(chosen, {9: 0, 4: 1, 100: 2})) == [9, 4, 3, 7]
    assert ids_of(hot_first(chosen, {})) == [3, 4, 7, 9]


@given(st.sets(st.integers(1, 30), min_size=1, max_size=8), st.permutations(list(range(1, 31))))
def test_whoever_shares_the_hottest_shares_the_beginning(chosen: set[int], order: list[int]) -> None:
    places = {id: place for place, id in enumerate(order[:10])}
    stands = ids_of(hot_first([candidate(n, 0.3) for n in sorted(chosen, reverse=True)], places))
    assert sorted(stands) == sorted(chosen)
    hot = [id for id in stands if id in places]
    assert stands[: len(hot)] == sorted(hot, key=places.__getitem__)


def test_the_combiner_orders_by_heat_only_where_the_order_is_stable() -> None:
    given_ = [candidate(1, 0.4), candidate(2, 0.3), candidate(3, 0.2)]
    for order, expected in (("stable", [3, 1, 2]), ("helpful_last", [3, 2, 1])):
        knobs = Knobs(min_gain=0.0, redundancy=0.0, distraction=0.0, order=order)  # type: ignore[arg-type]
        found = combine(given_, quality_alone=0.3, most=3, budget_tokens=10_000, knobs=knobs, hot={3: 0})
        assert ids_of(found.chosen) == expected
