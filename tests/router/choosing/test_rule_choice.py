"""A rule's choice is logged with the probability it really had, whatever load, health and the quality floor do to it."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.choosing.chooser import Chooser, Situation
from router.choosing.features import Examples, Request
from router.choosing.load import EngineState
from router.choosing.rule_choice import choice_by_rule
from router.plan import Action, Choice
from tests.knobs import chooser_knobs

SMALL, LARGE = "small", "large"
WITH, WITHOUT, REFERENCE = Action(SMALL, True), Action(SMALL, False), Action(LARGE, False)


def weighed(examples: int = 2) -> Choice:
    situation = Situation(
        Request("What?"), [EngineState(SMALL), EngineState(LARGE)], examples=Examples(count=examples)
    )
    return Chooser(chooser_knobs()).choose(situation, None, random.Random(1))


def follow(
    pick: Action, *, least: float = 0.05, cap: float = 1.0, available: list[bool] | None = None, seed: int = 0
) -> Choice:
    choice = weighed()
    return choice_by_rule(
        choice,
        pick,
        reference=LARGE,
        available=available or [True] * len(choice.weighed),
        least_probability=least,
        offload_cap=cap,
        rng=random.Random(seed),
    )


def taken(choice: Choice) -> Action:
    return choice.weighed[choice.chosen].action


def test_without_exploration_the_rule_is_followed_and_says_so() -> None:
    for pick in (WITH, REFERENCE):
        choice = follow(pick, least=0.0)
        assert taken(choice) == pick
        assert choice.weighed[choice.chosen].probability == 1.0
        assert not choice.explored


@given(st.sampled_from([WITH, WITHOUT, REFERENCE]), st.floats(0, 0.5), st.floats(0, 1))
def test_probabilities_sum_to_one_and_never_exceed_the_cap(pick: Action, least: float, cap: float) -> None:
    choice = follow(pick, least=least, cap=cap)
    total = sum(each.probability for each in choice.weighed)
    offloaded = sum(each.probability for each in choice.weighed if each.action != REFERENCE)
    assert total == pytest.approx(1.0)
    assert offloaded <= cap + 1e-9


def test_logged_probabilities_are_the_frequencies() -> None:
    drawn = Counter(taken(follow(WITH, least=0.1, seed=seed)) for seed in range(4000))
    for each in follow(WITH, least=0.1).weighed:
        assert drawn[each.action] / 4000 == pytest.approx(each.probability, abs=0.03)


def test_an_engine_that_is_not_available_is_never_picked() -> None:
    choice = weighed()
    available = [each.action.engine == LARGE for each in choice.weighed]
    for seed in range(50):
        assert taken(follow(WITH, available=available, seed=seed)) == REFERENCE


def test_what_cannot_be_done_falls_to_the_reference() -> None:
    choice = choice_by_rule(
        weighed(examples=0),
        WITH,
        reference=LARGE,
        available=[True, True],
        least_probability=0.0,
        offload_cap=1.0,
        rng=random.Random(0),
    )
    assert taken(choice) == REFERENCE


def test_what_the_floor_sends_to_the_reference_is_not_called_exploring() -> None:
    choice = follow(WITH, least=0.0, cap=0.0)
    assert taken(choice) == REFERENCE
    assert choice.floored and not choice.explored


def with_down(pick: Action, down: list[str], seed: int = 0, least: float = 0.0) -> Choice:
    choice = weighed()
    return choice_by_rule(
        choice,
        pick,
        reference=LARGE,
        available=[True] * len(choice.weighed),
        down=down,
        least_probability=least,
        offload_cap=1.0,
        rng=random.Random(seed),
    )


def test_what_is_taken_because_another_engine_is_down_says_instead_of_which() -> None:
    choice = with_down(REFERENCE, [LARGE])
    assert taken(choice).engine == SMALL and choice.instead_of == LARGE
    choice = with_down(WITH, [SMALL])
    assert taken(choice) == REFERENCE and choice.instead_of == SMALL
    # What would have been taken anyway is taken as ever, whoever is down.
    assert with_down(WITH, [LARGE]).instead_of == ""
    assert with_down(REFERENCE, []).instead_of == ""
    # Where all are down, nothing is taken for that.
    choice = with_down(REFERENCE, [LARGE, SMALL])
    assert taken(choice) == REFERENCE and choice.instead_of == ""


def test_explorations_are_offloading_while_the_reference_is_down_as_often_as_while_it_is_not() -> None:
    decided = sum(with_down(REFERENCE, [LARGE], seed, least=0.1).instead_of == "" for seed in range(500))
    assert decided == sum(
        taken(follow(REFERENCE, least=0.1, seed=seed)).engine == SMALL for seed in range(500)
    )
