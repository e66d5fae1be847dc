"""The linear model learns what features say of each action, and not what they cannot say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from router.choosing.bandit import BanditBroken
from router.choosing.linear import LEARNERS, MOST_ACTIONS, NUMPY, PASSES, VOWPAL, Linear, usual_learner

DIMENSIONS = 4
CONTEXTS = [{"words": float(n % 2), "always": 1.0, "weight_cost": float(n)} for n in range(40)]


INSTALLED = [NUMPY, VOWPAL] if usual_learner() == VOWPAL else [NUMPY]
each_learner = pytest.mark.parametrize("learner", INSTALLED)


def taught(learner: str) -> Linear:
    model = Linear.scaled_to(DIMENSIONS, CONTEXTS, learner)
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


@each_learner
def test_each_action_has_weights_of_its_own(learner: str) -> None:
    model = taught(learner)
    long, short = (model.row(None, {"words": float(n), "always": 1.0}) for n in (1, 0))
    assert model.correction("small", long) > 0.2 > -0.2 > model.correction("small", short)
    assert model.correction("large", long) == 0.0


@each_learner
def test_a_saved_model_says_the_same(learner: str) -> None:
    model = taught(learner)
    as_saved = DIMENSIONS, model.names, model.mean, model.deviation, model.actions
    again = Linear(*as_saved, model.model(), learner)
    row = model.row(None, CONTEXTS[1])
    assert again.correction("small", row) == pytest.approx(model.correction("small", row))
    with pytest.raises(BanditBroken):
        Linear(*as_saved, b"nonsense", learner)


@pytest.mark.skipif(VOWPAL not in INSTALLED, reason="vowpal-wabbit-next is not installed")
def test_both_learners_find_the_same_weights() -> None:
    rng = np.random.default_rng(3)
    rows = (rng.normal(size=(200, 40)) / 3).astype(np.float32)
    targets = np.clip(rows @ rng.normal(size=40) + rng.normal(0, 0.2, 200), -1, 1)
    weights = rng.uniform(0.1, 1, 200)
    vowpal, ours = (LEARNERS[name](40, None) for name in (VOWPAL, NUMPY))
    for _ in range(PASSES):
        for at in range(200):
            for each in (vowpal, ours):
                each.learn(at % 3, rows[at], float(targets[at]), float(weights[at]))
    found, wanted = ([each.predict(2, row) for row in rows] for each in (ours, vowpal))
    assert np.std(wanted) > 0.05
    assert found == pytest.approx(wanted, abs=1e-4)


@each_learner
def test_more_actions_than_it_has_room_for_are_left_to_the_neighbours(learner: str) -> None:
    model = Linear.scaled_to(DIMENSIONS, CONTEXTS, learner)
    row = model.row(None, CONTEXTS[1])
    for number in range(MOST_ACTIONS + 1):
        model.learn(f"engine-{number}", row, 0.5, 1.0)
    assert len(model.actions) == MOST_ACTIONS
    assert math.isclose(model.correction(f"engine-{MOST_ACTIONS}", row), 0.0)
