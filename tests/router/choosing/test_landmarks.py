"""Landmarks: bounded, fading, and right about where they are."""

from __future__ import annotations

import numpy as np
import pytest

from router.choosing.landmarks import LandmarkKnobs, Landmarks

DIMENSIONS, NUMBERS = 8, 2


def unit(rng: np.random.Generator) -> np.ndarray:
    vector = rng.normal(size=DIMENSIONS)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def place(table: Landmarks, vector: np.ndarray | None, looks: float = 0.3) -> np.ndarray:
    return table.scaling.place(vector, np.full(NUMBERS, looks, np.float32))


def test_an_action_nothing_is_known_of_is_as_believed() -> None:
    table = Landmarks(DIMENSIONS, NUMBERS, LandmarkKnobs())
    reach, familiarity = table.near(place(table, unit(np.random.default_rng(0))))
    assert table.expected(reach, "a", 0.7) == 0.7
    assert familiarity == 0.0


def test_outcomes_count_near_by_and_little_far_away() -> None:
    table = Landmarks(DIMENSIONS, NUMBERS, LandmarkKnobs())
    here, there = np.eye(DIMENSIONS, dtype=np.float32)[:2]
    for _ in range(50):
        table.learn(place(table, here), {"a": 1.0}, 1.0)
        table.learn(place(table, there), {"a": 0.0}, 1.0)
    assert table.expected(table.near(place(table, here))[0], "a", 0.5) > 0.9
    assert table.expected(table.near(place(table, there))[0], "a", 0.5) < 0.1


def test_looks_alone_tell_requests_apart() -> None:
    table = Landmarks(DIMENSIONS, NUMBERS, LandmarkKnobs(looks=1.0))
    vector = np.eye(DIMENSIONS, dtype=np.float32)[0]
    for _ in range(50):
        table.learn(place(table, vector, 0.0), {"a": 1.0}, 1.0)
        table.learn(place(table, vector, 1.0), {"a": 0.0}, 1.0)
    for asked in (vector, None):
        short, long = (table.near(place(table, asked, looks))[0] for looks in (0.0, 1.0))
        assert table.expected(short, "a", 0.5) > table.expected(long, "a", 0.5) + 0.5


def test_there_are_never_more_landmarks_than_allowed() -> None:
    table, rng = Landmarks(DIMENSIONS, NUMBERS, LandmarkKnobs(most=16)), np.random.default_rng(0)
    for _ in range(500):
        table.learn(place(table, unit(rng)), {"a": 1.0}, 1.0)
    assert len(table.arrays()[0]["centres"]) == 16


def test_old_outcomes_fade() -> None:
    table = Landmarks(DIMENSIONS, NUMBERS, LandmarkKnobs(half_life_lessons=20))
    spot = place(table, np.eye(DIMENSIONS, dtype=np.float32)[0])
    for quality in (1.0, 0.0):
        for _ in range(100):
            table.learn(spot, {"a": quality}, 1.0)
    assert table.expected(table.near(spot)[0], "a", 0.5) < 0.15


def test_fading_for_very_long_keeps_numbers_finite() -> None:
    table = Landmarks(DIMENSIONS, NUMBERS, LandmarkKnobs(half_life_lessons=1))
    spot = place(table, np.eye(DIMENSIONS, dtype=np.float32)[0])
    for _ in range(2000):
        table.learn(spot, {"a": 0.25}, 1.0)
    arrays, _ = table.arrays()
    assert all(np.isfinite(a).all() for a in arrays.values())
    assert 0.2 < table.expected(table.near(spot)[0], "a", 0.5) < 0.5


def test_what_was_restored_says_the_same() -> None:
    table, rng = Landmarks(DIMENSIONS, NUMBERS, LandmarkKnobs(most=8)), np.random.default_rng(0)
    for index in range(40):
        table.learn(place(table, unit(rng)), {"ab"[index % 2]: rng.random()}, 1.0)
    arrays, actions = table.arrays()
    again = Landmarks(DIMENSIONS, NUMBERS, LandmarkKnobs(most=8))
    again.restore(arrays, actions)
    asked = place(table, unit(rng))
    for action in "ab":
        assert again.expected(again.near(asked)[0], action, 0.5) == pytest.approx(
            table.expected(table.near(asked)[0], action, 0.5), abs=1e-5
        )
    with pytest.raises(ValueError, match="another shape"):
        Landmarks(DIMENSIONS + 1, NUMBERS, LandmarkKnobs(most=8)).restore(arrays, actions)
