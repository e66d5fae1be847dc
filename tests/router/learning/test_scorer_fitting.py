"""Fitting: the same input gives the same weights, and lessons keep the embeddings out."""

from __future__ import annotations

import numpy as np
import pytest

from tests.router.learning.scorer_world import outcomes

pytestmark = pytest.mark.train


def test_the_same_rows_and_seed_give_the_same_weights() -> None:
    from router.learning.scorer_fitting import fitted
    from router.learning.scorer_network import batch_of

    fit, check = batch_of(outcomes(150)), batch_of(outcomes(60, seed=1))
    none = np.zeros((0, 2), np.int64)
    (one, epochs), (two, again) = (fitted(fit, check, none, "pointwise", 3) for _ in range(2))
    assert epochs == again
    assert all(bool((one.weights[name] == two.weights[name]).all()) for name in one.weights)


def test_with_lessons_nothing_is_read_from_the_embeddings_of_pairs() -> None:
    from router.learning.scorer_fitting import LESSON_EPOCHS, fitted
    from router.learning.scorer_lessons import taught_by
    from router.learning.scorer_network import batch_of
    from tests.router.learning.test_scorer_lessons import told

    fit = batch_of(outcomes(60))
    network, epochs = fitted(fit, fit, np.zeros((0, 2), np.int64), "pointwise", 3, taught_by(told(10)))
    assert epochs == LESSON_EPOCHS
    assert not bool(network.weights["low_rank"].any())
