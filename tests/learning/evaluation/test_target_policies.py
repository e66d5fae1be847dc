from __future__ import annotations

import numpy as np
import pytest

from learning.evaluation.logged import logged
from learning.evaluation.off_policy import estimate
from learning.evaluation.target_policies import (
    NoSuchPolicy,
    always,
    as_logged,
    expected,
    few_shot,
    learnt,
    parsed,
    rewards,
    uniform,
)
from router.choosing.bandit import BanditOutdated, Estimate, Scene
from router.choosing.reward import expected_reward, weights
from tests.learning.training.worlds import logged_world, met


@pytest.mark.parametrize(
    "text", ["logged", "random", "expected", "always:small", "always:large", "few_shot", "few_shot:0.85,5"]
)
def test_every_policy_gives_a_distribution_over_available_actions(text: str) -> None:
    found = logged_world(50)
    for preference in (0.0, 0.5, 1.0):
        target = parsed(text).decide(found, preference)
        assert np.allclose(target.sum(1), 1.0)
        assert (target[~found.available] == 0).all()


@pytest.mark.parametrize(
    "text", ["", "best", "always", "few_shot:high", "few_shot:2,3", "few_shot:0.8,0", "logged:1", "bandit:1"]
)
def test_a_policy_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(NoSuchPolicy):
        parsed(text)


def test_an_engine_that_the_log_does_not_know_is_refused_with_those_it_knows() -> None:
    with pytest.raises(NoSuchPolicy, match="large, small"):
        always("medium").decide(logged_world(5), 0.5)


def test_an_engine_that_was_not_to_be_had_is_replaced_by_the_reference() -> None:
    large_only = met(2, 2)
    actions = ({**large_only.choice.actions[2], "probability": 1.0},)
    found = logged([met(1, 0), met(2, 0, actions=actions, engine="large")])
    assert always("small").decide(found, 0.5).tolist() == [[1, 0, 0], [0, 0, 1]]


def test_few_shot_counts_the_neighbours_that_were_logged() -> None:
    # The candidates of every logged request are 0.9, 0.89, 0.88 and so on.
    found = logged([met(1, 0), met(2, 0, candidates=({"id": 1, "similarity": 0.95},))])
    assert few_shot(0.87, 4).decide(found, 0.5).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert few_shot(0.87, 5).decide(found, 0.5).tolist() == [[0, 0, 1], [0, 0, 1]]
    assert few_shot(0.94, 1).decide(found, 0.5).tolist() == [[0, 0, 1], [0, 1, 0]]


def test_what_was_expected_is_weighed_anew_at_every_dial() -> None:
    found = logged([met(1, 0)])
    assert expected().decide(found, 0.0).tolist() == [[1, 0, 0]]
    assert expected().decide(found, 1.0).tolist() == [[0, 0, 1]]
    told = rewards(found, found.expected_quality, 0.5)
    assert told[0, 1] == pytest.approx(expected_reward(weights(0.5), 0.8, 0.2, 0.5, 1.0))


class Fixed:
    """A bandit that expects the same of everything, and is as sure of it as it is told to be."""

    version, learned = "7", 10

    def __init__(self, deviation: float = 0.0) -> None:
        self.deviation = deviation

    def estimate(self, scene: Scene) -> Estimate:
        count = len(scene.options)
        return Estimate((1.0,) * count, (self.deviation,) * count)


def test_a_bandit_is_asked_as_the_chooser_would_and_its_doubts_count() -> None:
    found = logged([met(1, 0), met(2, 0)])
    certain = learnt("bandit:7", Fixed())  # type: ignore[arg-type]
    assert certain.decide(found, 0.9).tolist() == [[1, 0, 0]] * 2
    doubtful = learnt("bandit:7", Fixed(deviation=0.5))  # type: ignore[arg-type]
    assert doubtful.decide(found, 0.9).tolist() == [[0, 0, 1]] * 2
    assert doubtful.uses_preference


def test_a_log_of_other_features_is_refused_rather_than_misread() -> None:
    found = logged([met(1, 0, features_version="0")])
    with pytest.raises(BanditOutdated, match="version"):
        learnt("bandit:7", Fixed()).decide(found, 0.5)  # type: ignore[arg-type]


def test_the_truth_comes_out_for_policies_that_were_never_run() -> None:
    found = logged_world(3000, 4)
    for policy, truth in (
        (always("small"), 0.5),
        (always("large"), 1.0),
        (uniform(), 0.8),
        (as_logged(), 0.82),
    ):
        quality = estimate(
            found.log, policy.decide(found, 0.5), {"q": found.figures(0.5)["quality"]}, resamples=200
        )
        for each in quality["q"].values():
            assert each.interval.low - 0.01 <= truth <= each.interval.high + 0.01, (policy.name, each)
