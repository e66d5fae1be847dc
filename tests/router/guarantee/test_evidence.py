"""Evidence on a mean: it proves what holds, hardly ever what does not, and notices when that changes."""

from __future__ import annotations

import math
import random

import pytest

from router.guarantee.evidence import Detector, Evidence, exceeds, spent

ALPHA = 0.05 / spent(0)
"""So that the first beginning has 0.05."""


def told(*qualities: float, alpha: float = ALPHA) -> Evidence:
    evidence = Evidence(0.95, alpha)
    for quality in qualities:
        evidence.add(quality)
    return evidence


def test_nothing_is_known_before_the_first_comparison() -> None:
    evidence = told()
    assert evidence.bounds() == (0.0, 1.0)
    assert not evidence.proven and not evidence.hopeless


def test_less_than_a_hundred_successes_prove_a_mean_above_95_percent() -> None:
    assert not told(*[1.0] * 60).proven
    evidence = told(*[1.0] * 90)
    assert evidence.proven and evidence.bounds()[0] >= 0.95


def test_a_mean_at_the_threshold_is_hardly_ever_proven_however_often_one_looks() -> None:
    proven = 0
    for seed in range(200):
        rng, evidence = random.Random(seed), Evidence(0.95, ALPHA)
        for _ in range(800):
            evidence.add(float(rng.random() < 0.95))
        proven += evidence.proven
    assert proven <= 200 * 0.05


def test_a_good_engine_is_proven_with_a_few_hundred_comparisons() -> None:
    needed = []
    for seed in range(40):
        rng, evidence = random.Random(seed), Evidence(0.95, ALPHA)
        while not evidence.proven and evidence.compared < 2000:
            evidence.add(float(rng.random() < 0.98))
        needed.append(evidence.compared)
    assert sorted(needed)[20] < 350 and max(needed) < 2000


def test_a_junk_engine_is_known_to_be_hopeless_after_a_handful() -> None:
    evidence = told(*[0.0] * 4)
    assert evidence.hopeless and evidence.expected_more() is None


def test_values_between_0_and_1_count_as_what_they_are() -> None:
    assert told(*[0.9] * 300).hopeless
    assert told(*[0.99] * 300).proven


@pytest.mark.parametrize("mean", [0.3, 0.8, 0.97])
def test_the_bounds_hold_the_mean(mean: float) -> None:
    for seed in range(20):
        rng, evidence = random.Random(seed), Evidence(0.95, 0.001)
        for _ in range(400):
            evidence.add(float(rng.random() < mean))
        lower, upper = evidence.bounds()
        assert lower <= mean <= upper and upper - lower < 0.3


def test_a_change_for_the_worse_is_noticed_within_few_checks_behind_much_good_evidence() -> None:
    evidence = told(*[1.0] * 1000)
    assert evidence.proven and not evidence.changed
    for _ in range(4):
        evidence.add(0.0)
    assert evidence.changed


def test_an_engine_that_stays_good_is_hardly_ever_taken_for_changed() -> None:
    changed = 0
    for seed in range(50):
        rng, evidence = random.Random(seed), told(*[1.0] * 120)
        for _ in range(1000):
            evidence.add(float(rng.random() < 0.98))
        changed += evidence.changed
    assert changed <= 3


def test_fewer_comparisons_are_expected_the_more_there_are() -> None:
    expected = [told(*[1.0] * count).expected_more() for count in (0, 20, 40, 60)]
    assert expected == sorted(expected, key=lambda each: -(each or 0)) and expected[0] is not None
    assert told(*[1.0] * 200).expected_more() == 0


def test_what_is_spent_of_alpha_adds_up_to_it() -> None:
    assert sum(map(spent, range(100_000))) == pytest.approx(1.0, abs=1e-4)


def test_a_detector_hears_values_that_fall_below_what_is_expected_and_little_else() -> None:
    rng, detector = random.Random(0), Detector(1000.0)
    for _ in range(500):
        detector.add(float(rng.random() < 0.96), 0.95)
    assert not detector.found
    for _ in range(60):
        detector.add(float(rng.random() < 0.5), 0.95)
    assert detector.found
    detector.restart()
    assert not detector.found


@pytest.mark.parametrize("delta", [0.01, 0.05])
def test_counts_that_are_wrong_too_often_hardly_ever_prove_anything_however_often_one_looks(
    delta: float,
) -> None:
    alpha, runs, mistaken = 0.1, 150, 0
    for seed in range(runs):
        rng, wrong = random.Random(seed), 0
        for told in range(1, 1000):
            # Drifts around delta from above, and is worse after a run of luck.
            wrong += rng.random() < delta * (1.02 if told % 200 < 100 else 1.3)
            if exceeds({1.0: told - wrong, 0.0: wrong}, 1 - delta, alpha):
                mistaken += 1
                break
    assert mistaken / runs <= alpha + 3 * math.sqrt(alpha / runs)


def test_counts_that_are_seldom_wrong_do_prove_it_and_few_prove_nothing() -> None:
    assert exceeds({1.0: 1996, 0.0: 4}, 0.99, 0.01)
    assert exceeds({1.0: 495, 0.0: 5}, 0.95, 0.01)
    assert not exceeds({}, 0.99, 0.05)
    assert not exceeds({1.0: 290}, 0.99, 0.05)


def test_what_belongs_together_counts_once_with_its_mean() -> None:
    alone, together = told(1.0, 1.0, 0.5), Evidence(0.95, ALPHA)
    for quality, unit in ((1.0, 7.0), (1.0, 8.0), (1.0, 8.0), (1.0, 9.0), (0.0, 9.0), (1.0, 8.0)):
        together.add(quality, unit)
    assert together.compared == 3 and together.mean == alone.mean
    assert together.bounds() == pytest.approx(alone.bounds())
    assert together.expected_more() == alone.expected_more()


def test_a_thousand_turns_of_one_conversation_prove_nothing() -> None:
    evidence = Evidence(0.95, ALPHA)
    for _ in range(1000):
        evidence.add(1.0, 7.0)
    assert evidence.compared == 1 and not evidence.proven
    for unit in range(90):
        evidence.add(1.0, float(unit + 8))
    assert evidence.proven


def test_bad_turns_of_one_conversation_are_noticed_at_once() -> None:
    evidence = told(*[1.0] * 200)
    for _ in range(20):
        evidence.add(0.0, 7.0)
    assert evidence.changed
