"""Fitting: the same input gives the same weights, and lessons keep the embeddings out."""

from __future__ import annotations

import numpy as np
import pytest

from tests.learning.training.scorer.scorer_world import outcomes

pytestmark = pytest.mark.train


def test_the_same_rows_and_seed_give_the_same_weights() -> None:
    from learning.training.scorer.fitting import fitted
    from learning.training.scorer.network import batch_of

    fit, check = batch_of(outcomes(150)), batch_of(outcomes(60, seed=1))
    none = np.zeros((0, 2), np.int64)
    (one, epochs), (two, again) = (fitted(fit, check, none, "pointwise", 3) for _ in range(2))
    assert epochs == again
    assert all(bool((one.weights[name] == two.weights[name]).all()) for name in one.weights)


def test_with_lessons_nothing_is_read_from_the_embeddings_of_pairs() -> None:
    from learning.training.scorer.fitting import LESSON_EPOCHS, fitted
    from learning.training.scorer.lessons_loss import taught_by
    from learning.training.scorer.network import batch_of
    from tests.learning.training.scorer.test_lessons_loss import told

    fit = batch_of(outcomes(60))
    network, epochs = fitted(fit, fit, np.zeros((0, 2), np.int64), "pointwise", 3, taught_by(told(10)))
    assert epochs == LESSON_EPOCHS
    assert not bool(network.weights["low_rank"].any())


@pytest.mark.parametrize("studied", [False, True])
def test_with_lessons_harm_is_the_same_for_every_example(
    monkeypatch: pytest.MonkeyPatch, studied: bool
) -> None:
    from learning.training.scorer import fitting as scorer_fitting
    from learning.training.scorer.lessons_loss import taught_by
    from learning.training.scorer.network import batch_of
    from tests.learning.training.scorer.test_lessons_loss import told

    monkeypatch.setattr(scorer_fitting, "STUDY_STEPS", 20)
    fit = batch_of(outcomes(60))
    none = np.zeros((0, 2), np.int64)
    network, _ = scorer_fitting.fitted(fit, fit, none, "pointwise", 3, taught_by(told(10)), studied=studied)
    _, helps, harms = (tensor.detach() for tensor in network.effects(fit))
    assert float(harms.max() - harms.min()) < 1e-6 < float(helps.max() - helps.min())


def test_lessons_studied_first_are_known_better() -> None:
    from learning.training.scorer.fitting import fitted
    from learning.training.scorer.lessons_loss import loss_of, taught_by
    from learning.training.scorer.network import batch_of
    from tests.learning.training.scorer.test_lessons_loss import told

    fit, taught = batch_of(outcomes(60)), taught_by(told(30))
    none = np.zeros((0, 2), np.int64)
    losses = [
        loss_of(
            fitted(fit, fit, none, "pointwise", 3, taught, studied=studied)[0], taught, dropout=False
        ).detach()
        for studied in (False, True)
    ]
    assert losses[1].item() < losses[0].item()
