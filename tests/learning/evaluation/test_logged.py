from __future__ import annotations

import math

import numpy as np
import pytest

from learning.evaluation.logged import NothingLogged, logged
from router.choosing.reward import reward, weights
from router.plan import Action
from tests.learning.training.worlds import met


def test_rows_become_arrays_with_a_column_for_every_action() -> None:
    found = logged([met(1, 0, {"quality": 0.25, "probability": 0.2}), met(2, 2)])
    assert found.actions == (Action("small", False), Action("small", True), Action("large", False))
    assert found.log.probabilities[0].tolist() == pytest.approx([0.3, 0.3, 0.4])
    assert found.log.chosen.tolist() == [0, 2]
    assert found.reference.tolist() == [2, 2]
    assert found.log.quality.tolist() == [0.25, 1.0]
    assert found.log.known_probability.tolist() == [0.2, 1.0]
    assert found.log.latency_s.tolist() == [1.5, 1.5]
    assert found.expected_cost_usd[0].tolist() == [0.1, 0.2, 1.0]
    assert found.similarities[0][0] == 0.9


def test_an_action_that_was_not_to_be_had_has_no_chance_in_its_row() -> None:
    short = met(1, 0)
    actions = short.choice.actions[::2]
    fewer = met(2, 1, actions=tuple({**each, "probability": 0.5} for each in actions), engine="large")
    found = logged([short, fewer])
    assert found.available.tolist() == [[True, True, True], [True, False, True]]
    assert found.log.probabilities[1].tolist() == [0.5, 0.0, 0.5]
    assert found.log.chosen.tolist() == [0, 2]


def test_what_cannot_be_evaluated_is_left_out_and_counted() -> None:
    odd = met(3, 0, probabilities=(0.0, 0.6, 0.4))
    broken = met(4, 0, probabilities=(0.3, 0.3, 0.1))
    found = logged([met(1, -1), met(2, 0), odd, broken])
    assert len(found.log) == 1
    assert found.left_out == {"other": 1, "impossible": 2}
    with pytest.raises(NothingLogged, match=r"1 were not weighed, 1 have figures.*`policy: in_context`"):
        logged([met(1, -1), broken])
    with pytest.raises(NothingLogged, match="empty"):
        logged([])


def test_a_reference_counts_as_perfect_only_where_quality_is_relative_to_it() -> None:
    judged = [met(1, 0, {"quality": 0.5}), met(2, 2)]
    assert logged(judged).quality_is == "relative"
    labelled = [*judged, met(3, 2, {"quality": 0.0, "source": "label", "probability": 1.0})]
    found = logged(labelled)
    assert found.quality_is == "measured"
    assert math.isnan(found.log.quality[1])
    assert found.log.quality[2] == 0.0
    assert logged(labelled, quality_is="relative").log.quality[1:].tolist() == [1.0, 1.0]


def test_only_the_served_answer_counts_and_of_several_voices_the_surest() -> None:
    found = logged(
        [
            met(1, 0, {"quality": 0.9, "served": False, "engine": "large"}),
            met(2, 0, {"quality": 0.2, "source": "user"}, {"quality": 0.6, "probability": 0.3}),
            met(3, 0, {"quality": 0.4}, {"quality": 0.6}),
        ]
    )
    assert math.isnan(found.log.quality[0])
    assert found.log.quality[1:].tolist() == [0.6, 0.5]
    assert found.log.known_probability[1] == 0.3
    assert not found.self_selected


def test_the_coin_of_requests_that_were_not_judged_is_taken_from_those_that_were() -> None:
    found = logged([met(1, 0, {"quality": 0.5, "probability": 0.2}), met(2, 0), met(3, 1)])
    assert found.log.known_probability.tolist() == pytest.approx([0.2, 0.2, 0.2])


def test_users_who_speak_of_their_own_accord_are_said_to_be_so() -> None:
    rows = [
        met(n, 0, *([{"quality": 1.0, "source": "user", "probability": 1.0}] if n < 2 else []))
        for n in range(10)
    ]
    found = logged(rows)
    assert found.self_selected
    assert found.log.known_probability.tolist() == pytest.approx([0.2] * 10)


def test_rewards_are_those_of_the_reward_function_at_any_dial() -> None:
    found = logged([met(1, 1, {"quality": 0.5}), met(2, 0)])
    for dial in (0.0, 0.5, 1.0):
        rewards = found.rewards(dial)
        assert rewards[0] == pytest.approx(reward(weights(dial), 0.5, 0.2, 1.5 / 4.0, 1.0))
        assert math.isnan(rewards[1])
    assert set(found.figures(0.5)) == {"quality", "cost_usd", "latency_s", "reward"}


def test_features_are_finite_whatever_was_missing() -> None:
    found = logged(
        [met(1, 0), met(2, 0, vector=None), met(3, 0, context={}), met(4, 0, context={"odd": math.inf})]
    )
    assert np.isfinite(found.log.features).all()
    assert found.log.features.shape[0] == 4
    assert logged([met(1, 0, vector=None, context={})]).log.features.shape == (1, 0)
