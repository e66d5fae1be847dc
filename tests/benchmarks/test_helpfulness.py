"""The judge of the helpfulness benchmark: its formula agrees with replies, and no choice is better than its oracle."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.helpfulness.world import (
    Played,
    expected_quality,
    graded,
    play,
    remembered,
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
