"""Which requests a strategy calls doubtful, and that a percentile leaves the share of them that is wanted."""

from __future__ import annotations

import math
import random

import pytest

from engines.prediction import Prediction
from router.tasks.strategies import STRATEGIES, Threshold


def prediction(*probabilities: float, committee: tuple[int, ...] = (), distance: float = 0.0) -> Prediction:
    top = probabilities.index(max(probabilities))
    logs = tuple(math.log(each) if each else -math.inf for each in probabilities)
    labels = tuple(f"l{n}" for n in range(len(probabilities)))
    return Prediction(1, labels, logs, top, labels[top], committee=committee, distance=distance)


@pytest.mark.parametrize("name", ["margin", "entropy"])
def test_two_likely_labels_are_more_doubtful_than_one(name: str) -> None:
    doubt = STRATEGIES[name]  # type: ignore[index]
    sure, unsure, one = prediction(0.98, 0.01, 0.01), prediction(0.5, 0.49, 0.01), prediction(1.0)
    assert doubt(one, 0.5) < doubt(sure, 0.5) < doubt(unsure, 0.5)


def test_a_contradicting_committee_and_a_distant_input_are_doubtful() -> None:
    agreed, split = prediction(0.6, 0.4, committee=(0, 0, 0)), prediction(0.6, 0.4, committee=(0, 1, 0))
    assert STRATEGIES["committee"](agreed, 0.99) < STRATEGIES["committee"](split, 0.0)
    far = prediction(0.9, 0.1, distance=0.7)
    assert STRATEGIES["coreset"](agreed, 0.9) < STRATEGIES["coreset"](far, 0.1)


@pytest.mark.parametrize("name", ["margin", "random", "committee"])
def test_a_percentile_of_the_history_asks_for_the_wanted_share(name: str) -> None:
    rng, threshold = random.Random(0), Threshold()
    asked = 0
    for _ in range(3000):
        sure = rng.uniform(0.5, 0.99)
        guessed = prediction(sure, 1 - sure, committee=(0, rng.randrange(2)))
        asked += threshold.exceeded(STRATEGIES[name](guessed, rng.random()), 0.3)  # type: ignore[index]
    assert asked / 3000 == pytest.approx(0.3, abs=0.05)


def test_a_fixed_threshold_ignores_the_share() -> None:
    threshold = Threshold(0.5)
    assert threshold.exceeded(0.5, 0.0) and not threshold.exceeded(0.49, 1.0)
