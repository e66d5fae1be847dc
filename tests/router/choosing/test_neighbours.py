"""Outcomes near by say how good an action is there, and how much that rests on."""

from __future__ import annotations

import numpy as np
import pytest

from router.choosing.neighbours import Neighbours

DIMENSIONS = 16
RIGHT, WRONG, NEW = np.eye(DIMENSIONS, dtype=np.float32)[:3]


def around(centre: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    found = centre + np.random.default_rng(seed).normal(0, 0.05, (count, DIMENSIONS)).astype(np.float32)
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)


@pytest.fixture
def taught() -> Neighbours:
    known = Neighbours(DIMENSIONS)
    known.add("small", around(RIGHT, 60), np.ones(60))
    known.add("small", around(WRONG, 60, 1), np.zeros(60))
    known.add("large", around(RIGHT, 10, 2), np.ones(10))
    return known


def test_the_outcomes_near_by_decide_and_not_those_elsewhere(taught: Neighbours) -> None:
    assert taught.estimate(RIGHT)["small"].mean > 0.9
    assert taught.estimate(WRONG)["small"].mean < 0.1
    assert taught.estimate(RIGHT)["small"].overall == pytest.approx(0.5)


def test_a_rare_action_has_neighbours_of_its_own(taught: Neighbours) -> None:
    near = taught.estimate(RIGHT)
    assert near["large"].mean > 0.9
    assert 5 < near["large"].evidence < near["small"].evidence


def test_far_from_everything_there_is_no_evidence(taught: Neighbours) -> None:
    assert taught.estimate(RIGHT)["small"].likeness > 0.9
    strange = taught.estimate(NEW)["small"]
    assert strange.evidence < 0.1 and strange.likeness < 0.01
    assert taught.estimate(None)["small"].evidence == 0.0


def test_old_outcomes_count_less() -> None:
    known = Neighbours(DIMENSIONS)
    known.add("small", around(RIGHT, 40), np.zeros(40), np.full(40, 0.02))
    known.add("small", around(RIGHT, 40, 1), np.ones(40))
    assert known.estimate(RIGHT)["small"].mean > 0.9


def test_what_is_expected_counts_until_outcomes_outweigh_it() -> None:
    known = Neighbours(DIMENSIONS)
    known.add("small", around(RIGHT, 1), np.zeros(1))
    assert (
        known.estimate(RIGHT, {"small": 1.0})["small"].mean
        > known.estimate(RIGHT, {"small": 0.0})["small"].mean
    )


def test_what_was_saved_says_the_same_and_takes_more(taught: Neighbours) -> None:
    again = Neighbours.load(taught.save(), DIMENSIONS)
    assert again.estimate(RIGHT) == taught.estimate(RIGHT)
    again.add("small", around(NEW, 20), np.ones(20))
    assert again.estimate(NEW)["small"].mean > 0.8


def test_bytes_that_do_not_belong_together_are_refused(taught: Neighbours) -> None:
    with pytest.raises(ValueError, match="different lengths"):
        Neighbours.load(taught.save(), DIMENSIONS + 1)
