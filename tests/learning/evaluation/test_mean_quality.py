"""A mean from sums is that of the answers themselves, and its interval holds the truth about as often as it says."""

from __future__ import annotations

import random

import pytest

from learning.evaluation.mean_quality import mean_quality
from store.decisions.quality_rollups import QualitySums


def summed(rows: list[tuple[float, float]], start_s: int = 0) -> QualitySums:
    """Of (quality, probability of having been picked)."""
    sums = [0.0] * 5
    for quality, probability in rows:
        w = 1.0 / probability
        for place, value in enumerate((w, w * quality, w * w, w * w * quality, w * w * quality**2)):
            sums[place] += value
    return QualitySums(start_s, "demo", "small", "judge", 0, len(rows), *sums)


def test_a_mean_weighs_by_inverse_probability_however_it_is_summed() -> None:
    often, rarely = [(1.0, 0.5)] * 50, [(0.0, 0.1)] * 10
    found = mean_quality([summed(often), summed(rarely, 60)])
    assert found is not None and found == mean_quality([summed(often + rarely)])
    assert found.count == 60 and found.mean == pytest.approx(0.5)
    assert found.low < 0.5 < found.high


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("count", [1, 5, 124, 1000])
def test_equal_values_are_not_taken_for_certainty(value: float, count: int) -> None:
    found = mean_quality([summed([(value, 0.2)] * count)])
    assert found is not None and found.mean == value and found.error == 0.0
    assert (found.high if value == 0 else 1 - found.low) > 1 / (count + 4)


def test_of_nothing_nothing_is_said() -> None:
    assert mean_quality([]) is None


@pytest.mark.parametrize("probabilities", [(1.0,), (0.05, 1.0)])
@pytest.mark.parametrize(("truth", "count"), [(0.95, 40), (0.8, 150), (0.5, 400)])
def test_the_interval_holds_the_truth(truth: float, count: int, probabilities: tuple[float, ...]) -> None:
    held, rng = 0, random.Random(7)
    for _ in range(200):
        rows = []
        while len(rows) < count:
            probability = rng.choice(probabilities)
            # Met as often as they are there, and judged with their probability.
            if rng.random() < probability:
                rows.append((float(rng.random() < truth), probability))
        found = mean_quality([summed(rows)])
        assert found is not None
        held += found.low <= truth <= found.high
    assert held >= 182
