"""A student answers what is like its lessons, knows what is not, and one that is broken is found out before it answers."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from learning.tasks.training import Labelled, train
from router.tasks.student import Student, StudentBroken, predicted
from tests.learning.tasks.customers import labelled, vector


@cache
def trained(seed: int = 0, version: str = "") -> bytes:
    return train(labelled(), seed=seed, kinds=("logistic",), embedding_version=version).data


def met() -> list[Labelled]:
    return labelled()[::17]


def test_probabilities_are_of_all_labels_and_of_the_likeliest_in_the_answer() -> None:
    student = Student.open(trained())
    row = met()[0]
    said = student.predict(row.input, row.vector, 5)
    assert np.exp(said.log_probabilities).sum() == pytest.approx(1.0, abs=1e-4)
    assert said.label == said.answer == row.label and said.version == 5
    assert said.distance == pytest.approx(0.0, abs=1e-3) and said.in_domain


@pytest.mark.parametrize(
    "text",
    [
        "Wo bleibt mein Paket? Ich habe vor drei Wochen bestellt und nichts gehört.",
        "荷物はどこにありますか",
        "Где моя посылка с чайником?",
        "x",
        "I want my money back for the blue kettle. " * 20,
        "Integrate x squared from zero to one and explain each step of the derivation.",
    ],
)
def test_another_language_length_or_subject_is_not_its_to_answer(text: str) -> None:
    assert not Student.open(trained()).predict(text, vector(text), 1).in_domain


def test_what_is_like_its_lessons_is() -> None:
    student = Student.open(trained())
    for text in ("Please refund the blue chair I sent back", "Where is the phone lamp I ordered?"):
        assert student.predict(text, vector(text), 1).in_domain


def test_what_is_no_student_is_not_opened() -> None:
    for data in (b"", b"no model", trained()[:-2000]):
        with pytest.raises(StudentBroken):
            Student.open(data)


def test_one_of_other_embeddings_is_not_opened() -> None:
    with pytest.raises(StudentBroken, match="trained on embeddings then, not now"):
        Student.open(trained(version="then"), embedding_version="now")
    Student.open(trained(version="then"), embedding_version="then")


def test_a_vector_that_is_none_gives_no_answer() -> None:
    student = Student.open(trained())
    with pytest.raises(StudentBroken):
        student.predict("Where is it?", np.full(384, np.nan, np.float32), 1)
    with pytest.raises(StudentBroken):
        student.predict("Where is it?", np.ones(12, np.float32), 1)


def test_a_committee_votes_in_the_first_ones_labels() -> None:
    two = [row for row in labelled() if row.label != "refund"]
    small = Student.open(train(two, seed=0, kinds=("logistic",)).data)
    whole = Student.open(trained())
    row = next(r for r in met() if r.label == "delivery")
    said = predicted([(3, small), (2, whole)], row.input, row.vector)
    assert said.version == 3 and said.committee == (said.top, said.top) and said.label == "delivery"
    row = next(r for r in met() if r.label == "refund")
    said = predicted([(3, small), (2, whole)], row.input, row.vector)
    # A label that the first does not know is nobody's place.
    assert said.committee == (said.top, -1)
    assert predicted([(3, small)], row.input, row.vector).committee == (said.top,)
