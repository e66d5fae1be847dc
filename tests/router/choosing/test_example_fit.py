"""What the scorer expects is believed until outcomes say otherwise, and then corrected along a line."""

from __future__ import annotations

import random

import numpy as np
import pytest

from router.choosing.example_fit import ExampleFit


def context(similarity: float) -> dict[str, float]:
    return {"best_similarity": similarity, "quality_with": 0.6, "gain": 0.3, "examples": 0.5}


def taught(outcomes: int, seed: int = 1) -> ExampleFit:
    """Right two times in ten at a similarity of 0.7, always at 0.98."""
    rng, fit = random.Random(seed), ExampleFit()
    for _ in range(outcomes):
        similarity = rng.uniform(0.7, 0.98)
        right = rng.random() < 0.2 + 0.8 * (similarity - 0.7) / 0.28
        fit.learn("small+", context(similarity), 0.6, float(right), 1.0)
    return fit


def test_before_any_outcome_the_scorer_is_believed() -> None:
    assert ExampleFit().expected("small+", context(0.9), 0.42) == 0.42
    assert taught(200).expected("other+", context(0.9), 0.42) == 0.42


def test_one_bad_answer_hardly_moves_it() -> None:
    fit = ExampleFit()
    fit.learn("small+", context(0.85), 0.6, 0.0, 1.0)
    assert fit.expected("small+", context(0.85), 0.6) > 0.3


def test_dozens_of_outcomes_show_where_examples_fit() -> None:
    fit = taught(150)
    near, far = (fit.expected("small+", context(s), 0.6) for s in (0.97, 0.72))
    assert near > 0.8
    assert far < 0.45


def test_what_was_learnt_survives_being_stored() -> None:
    fit, again = taught(80), ExampleFit()
    again.restore(fit.arrays(["large", "small+"]), ["large", "small+"])
    for similarity in (0.7, 0.9):
        assert again.expected("small+", context(similarity), 0.6) == pytest.approx(
            fit.expected("small+", context(similarity), 0.6)
        )
    assert again.expected("large", context(0.9), 0.6) == 0.6


def test_what_it_never_stored_is_refused() -> None:
    arrays = taught(10).arrays(["small+"])
    with pytest.raises(ValueError, match="shape"):
        ExampleFit().restore(arrays, ["small+", "another+"])
    with pytest.raises(ValueError, match="finite"):
        ExampleFit().restore(
            {**arrays, "fit_products": np.full_like(arrays["fit_products"], np.nan)}, ["small+"]
        )


def test_expectations_stay_qualities() -> None:
    fit = taught(300)
    for similarity in (-1.0, 0.0, 1.0, 5.0):
        assert 0.0 <= fit.expected("small+", context(similarity), 0.99) <= 1.0
