"""What is predicted of a request from the outcomes of those near it."""

from __future__ import annotations

import numpy as np
import pytest

from router.plan import Candidate
from router.proving.neighbours import Near, Outcomes, near
from tests.router.policies.test_few_shot import example

EAST = np.array([1.0, 0.0, 0.0], np.float32)
NORTH = np.array([0.0, 1.0, 0.0], np.float32)


def test_without_outcomes_nothing_good_is_predicted() -> None:
    assert Outcomes().expected(EAST, Near()) == 0.0


def test_near_requests_count_and_far_ones_do_not() -> None:
    outcomes = Outcomes()
    for _ in range(200):
        outcomes.add(EAST, Near(), 1.0)
        outcomes.add(NORTH, Near(), 0.0)
    assert outcomes.expected(EAST, Near()) > 0.95
    assert outcomes.expected(NORTH, Near()) < 0.05


def test_how_near_and_how_agreed_the_examples_were_counts_too() -> None:
    outcomes = Outcomes()
    for _ in range(200):
        outcomes.add(EAST, Near(0.95, 1.0), 1.0)
        outcomes.add(EAST, Near(0.8, 0.4), 0.0)
    assert outcomes.expected(EAST, Near(0.94, 1.0)) > 0.95
    assert outcomes.expected(EAST, Near(0.81, 0.5)) < 0.05


def test_few_outcomes_predict_little() -> None:
    outcomes = Outcomes()
    outcomes.add(EAST, Near(), 1.0)
    assert outcomes.expected(EAST, Near()) < 0.6


def test_old_outcomes_are_forgotten() -> None:
    outcomes = Outcomes()
    for quality in [0.0] * 4000 + [1.0] * 4000:
        outcomes.add(EAST, Near(), quality)
    assert outcomes.expected(EAST, Near()) > 0.95


def test_an_embedding_of_another_length_begins_anew() -> None:
    outcomes = Outcomes()
    outcomes.add(EAST, Near(), 1.0)
    assert outcomes.expected(np.ones(5, np.float32), Near()) == 0.0
    outcomes.add(np.ones(5, np.float32), Near(), 1.0)
    assert outcomes.expected(np.ones(5, np.float32), Near()) > 0.0


def test_examples_agree_if_their_answers_are_equal_but_for_space_and_case() -> None:
    said = ["Yes", " yes", "no", "YES "]
    shown = [
        Candidate(example(i)._replace(answer=answer), similarity)
        for i, (answer, similarity) in enumerate(zip(said, (0.8, 0.9, 0.85, 0.81), strict=True))
    ]
    assert near(shown) == Near(0.9, pytest.approx(0.75))
    assert near([]) == Near()
