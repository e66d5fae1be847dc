"""Before anything is learnt the nearest are sent, of about equally near ones those that say what is asked about."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.examples.features import NAMES, PLACE
from router.examples.prior import prior_model, prior_weights
from router.examples.scorer import ScorerModel


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScorerModel]:
    path: Path = tmp_path_factory.mktemp("prior") / "prior.onnx"
    path.write_bytes(prior_model())
    opened = ScorerModel(path)
    yield opened
    opened.close()


def row(similarity: float, words: float, answered: float = 0.3) -> list[float]:
    values = np.random.default_rng(0).random(len(NAMES))
    values[PLACE["similarity"]], values[PLACE["words"]] = similarity, words
    values[PLACE["request_answered"]], values[PLACE["answer_similarity"]] = answered, answered
    return values.tolist()


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_nearer_is_never_worth_less_nor_are_words_in_common(
    model: ScorerModel, one: float, other: float, words: float
) -> None:
    low, high = sorted((one, other))
    worths = model.worths(np.array([row(low, words), row(high, words), row(high, 1.0)], np.float32))
    assert worths[0] <= worths[1] <= worths[2]


def test_words_only_decide_between_those_about_equally_near(model: ScorerModel) -> None:
    near, worded, far = model.worths(np.array([row(0.9, 0.0), row(0.88, 1.0), row(0.8, 1.0)], np.float32))
    assert worded > near > far


def test_of_questions_worded_alike_that_whose_answer_names_what_is_asked_comes_first(
    model: ScorerModel,
) -> None:
    named, alike, far = model.worths(
        np.array([row(0.8, 0.5, 0.6), row(0.86, 1.0, 0.1), row(0.6, 0.5, 0.6)], np.float32)
    )
    assert named > alike > far


def test_it_says_that_it_is_the_prior_and_is_the_same_bytes_every_time(model: ScorerModel) -> None:
    assert model.declared.prior and not model.declared.qualities
    assert prior_model() == prior_model() and len(prior_weights()) == len(NAMES)
    assert model.worths(np.array([row(-0.5, 0.0, 0.0)], np.float32)) == [0.0]
