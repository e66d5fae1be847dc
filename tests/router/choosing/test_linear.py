"""The linear model learns what features say of each action, and not what they cannot say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from router.choosing.bandit import BanditBroken
from router.choosing.linear import MOST_ACTIONS, Linear

DIMENSIONS = 4
CONTEXTS = [{"words": float(n % 2), "always": 1.0, "weight_cost": float(n)} for n in range(40)]


def taught() -> Linear:
    model = Linear.scaled_to(DIMENSIONS, CONTEXTS)
    for _ in range(50):
        for context in CONTEXTS:
            model.learn("small", model.row(None, context), 0.5 if context["words"] else -0.5, 1.0)
    return model


def test_it_reads_features_of_quality_alone_and_scales_them() -> None:
    model = Linear.scaled_to(DIMENSIONS, CONTEXTS)
    assert model.names == ("always", "words")
    row = model.row(np.ones(DIMENSIONS, np.float32), {"words": 1.0, "always": 7.0})
    assert row.tolist() == pytest.approx([1, 1, 1, 1, 0.0, 0.3])
    assert model.row(None, {}).tolist() == [0.0] * 6, "what is missing is average"


def test_of_a_strange_request_the_looks_count_and_the_meaning_hardly() -> None:
    model = Linear.scaled_to(DIMENSIONS, CONTEXTS)
    row = model.row(np.ones(DIMENSIONS, np.float32), {"words": 1.0, "always": 1.0}, likeness=0.1)
    assert row.tolist() == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.0, 0.3])


def test_each_action_has_weights_of_its_own() -> None:
    model = taught()
    long, short = (model.row(None, {"words": float(n), "always": 1.0}) for n in (1, 0))
    assert model.correction("small", long) > 0.2 > -0.2 > model.correction("small", short)
    assert model.correction("large", long) == 0.0


def test_a_saved_model_says_the_same() -> None:
    model = taught()
    again = Linear(DIMENSIONS, model.names, model.mean, model.deviation, model.actions, model.model())
    row = model.row(None, CONTEXTS[1])
    assert again.correction("small", row) == pytest.approx(model.correction("small", row))
    with pytest.raises(BanditBroken):
        Linear(DIMENSIONS, model.names, model.mean, model.deviation, model.actions, b"nonsense")


def test_more_actions_than_it_has_room_for_are_left_to_the_neighbours() -> None:
    model = Linear.scaled_to(DIMENSIONS, CONTEXTS)
    row = model.row(None, CONTEXTS[1])
    for number in range(MOST_ACTIONS + 1):
        model.learn(f"engine-{number}", row, 0.5, 1.0)
    assert len(model.actions) == MOST_ACTIONS
    assert math.isclose(model.correction(f"engine-{MOST_ACTIONS}", row), 0.0)
