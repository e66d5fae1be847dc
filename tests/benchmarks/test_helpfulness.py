"""The judge of the helpfulness benchmark: its formula agrees with replies, and no choice is better than its oracle."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.helpfulness.__main__ import closed_in_all
from benchmarks.helpfulness.world import (
    Bank,
    Played,
    best_set,
    expected_quality,
    graded,
    play,
    remembered,
    scope_of,
)
from simulation.world import World, seeded
from store.records import Vector


def bag_of_words(text: str) -> Vector:
    """Stands for an embedder where only some nearness is needed: a sum of a random direction per word."""
    words = text.casefold().split() or ["nothing"]
    total = np.sum(
        [np.random.default_rng(seeded(word).getrandbits(32)).standard_normal(64) for word in words], axis=0
    )
    return (total / np.linalg.norm(total)).astype(np.float32)


@pytest.fixture(scope="module")
def played() -> Played:
    return play(World(7, 300), 400, 7, bag_of_words, answers=False)


def test_expected_quality_is_the_mean_grade_of_many_replies(played: Played) -> None:
    bank, expected, observed = remembered(played, 300, 1), [], []
    for i in range(300, 400):
        chosen = bank.near(i, 3)
        expected.append(expected_quality(played.world, played.asks[i], chosen))
        observed.append(np.mean([graded(played.world, played.asks[i], chosen, n) for n in range(10)]))
    assert np.mean(expected) == pytest.approx(np.mean(observed), abs=0.04)
    assert np.corrcoef(expected, observed)[0, 1] > 0.9


def test_the_oracle_is_at_least_as_good_as_the_nearest_and_as_none(played: Played) -> None:
    bank = remembered(played, 300, 1)
    for i in range(300, 340):
        near, ask = bank.near(i, 10), played.asks[i]
        best = expected_quality(played.world, ask, best_set(played.world, ask, near, 5))
        assert best >= expected_quality(played.world, ask, near[:1]) - 1e-9
        assert best >= expected_quality(played.world, ask, []) - 1e-9


def test_candidates_are_of_the_same_scope_and_never_the_very_same_question(played: Played) -> None:
    bank = Bank(played)
    for i in range(200):
        bank.add(i)
    for i in range(200, 300):
        near = bank.near(i, 20)
        assert all(c.example.scope == scope_of(played.asks[i]) for c in near)
        assert all(c.example.question != played.texts[i] for c in near)
        assert [c.similarity for c in near] == sorted((c.similarity for c in near), reverse=True)


def test_what_is_closed_in_all_worlds_counts_each_by_how_far_there_is_to_go() -> None:
    def world(nearest: float, trained: float, oracle: float) -> dict[str, dict[str, dict[str, float]]]:
        qualities = {"nearest 5": nearest, "prior": nearest, "trained": trained, "oracle": oracle}
        return {"ways": {name: {"quality": quality} for name, quality in qualities.items()}}

    closed = closed_in_all([world(0.7, 0.8, 0.8), world(0.7, 0.7, 1.0)])
    assert closed == {"prior": 0.0, "trained": pytest.approx(0.25)}
