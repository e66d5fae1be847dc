"""A student answers once that is proven, hardly ever otherwise, and no longer once it breaks."""

from __future__ import annotations

import random

from router.guarantee.checks import CHECK_FLOOR
from router.tasks.drift import Drift
from router.tasks.promise import Promise

MAX_LOSS = 0.05


def play(
    promise: Promise, rng: random.Random, count: int, *, right: float, version: int = 1
) -> tuple[int, int]:
    """Requests of which half are ones that the student is sure of; gives how many it answered, how many wrongly."""
    answered = wrong = 0
    for _ in range(count):
        sure = rng.random() < 0.5
        confidence = rng.uniform(0.97, 0.99) if sure else rng.uniform(0.5, 0.6)
        agreed = rng.random() < (right if sure else 0.5)
        standing = promise.standing
        would = standing.threshold is not None and confidence >= standing.threshold
        by_student = would and rng.random() >= standing.check_share
        promise.add(confidence, version, None if by_student else agreed)
        answered += by_student
        wrong += by_student and not agreed
    return answered, wrong


def test_nothing_is_answered_before_anything_is_proven() -> None:
    promise = Promise(MAX_LOSS)
    play(promise, random.Random(0), 40, right=1.0)
    assert promise.standing.threshold is None and promise.standing.check_share == 1.0


def test_a_student_that_is_right_where_it_is_sure_soon_answers_that_and_nothing_else() -> None:
    promise, rng = Promise(MAX_LOSS), random.Random(0)
    play(promise, rng, 2000, right=0.98)
    answered, wrong = play(promise, rng, 2000, right=0.98)
    assert 0.35 < answered / 2000 < 0.5 and wrong < 40
    assert promise.standing.check_share < 0.5 and promise.standing.lower > 0.93


def test_more_than_is_promised_is_hardly_ever_lost_by_a_student_that_overrates_itself() -> None:
    broken = 0
    for seed in range(20):
        promise, rng, lost = Promise(MAX_LOSS), random.Random(seed), 0
        for place in range(20):
            lost += play(promise, rng, 100, right=0.8)[1]
            broken += lost > MAX_LOSS * 100 * (place + 1)
    assert broken <= 1


def test_a_student_that_turns_wrong_is_stopped_until_there_is_a_later_version() -> None:
    promise, rng = Promise(MAX_LOSS), random.Random(0)
    play(promise, rng, 3000, right=0.99)
    _, wrong = play(promise, rng, 600, right=0.0)
    assert promise.standing.threshold is None and promise.standing.broken_version == 1
    assert wrong < 60
    play(promise, rng, 1000, right=1.0)
    assert promise.standing.threshold is None, "the version that broke is not believed again"
    play(promise, rng, 1500, right=1.0, version=2)
    assert promise.standing.threshold is not None and promise.standing.broken_version is None


def test_evidence_is_kept_over_a_retraining() -> None:
    promise, rng = Promise(MAX_LOSS), random.Random(0)
    play(promise, rng, 1500, right=0.99)
    answered, _ = play(promise, rng, 200, right=0.99, version=2)
    assert answered > 50


def test_some_requests_are_always_checked() -> None:
    promise = Promise(MAX_LOSS)
    play(promise, random.Random(0), 6000, right=1.0)
    assert promise.standing.check_share >= CHECK_FLOOR


def test_disagreement_and_distance_beyond_what_was_usual_are_drift_until_the_next_version() -> None:
    rng = random.Random(0)
    drift = Drift()
    for _ in range(2000):
        drift.seen(1, rng.uniform(0.1, 0.3))
        drift.told(1, 0.9, agreed=rng.random() < 0.9)
    assert not drift.found
    for _ in range(60):
        drift.told(1, 0.9, agreed=rng.random() < 0.5)
    assert drift.disagreement.found and not drift.distance.found
    drift.seen(2, 0.2)
    assert not drift.found
    for place in range(400):
        drift.seen(2, rng.uniform(0.1, 0.3) + (0.2 if place > 250 else 0.0))
    assert drift.distance.found
