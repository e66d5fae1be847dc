"""A student answers what the task's ledger has room for, and loses no more whatever it turns into."""

from __future__ import annotations

import random

import pytest

from router.tasks.drift import Drift
from router.tasks.promise import SHARES, Promise

MAX_LOSS = 0.05


def play(promise: Promise, rng: random.Random, count: int, *, right: float) -> tuple[int, int]:
    """Requests of which half are ones that the student is sure of; gives how many it answered, how many wrongly."""
    answered = wrong = 0
    for _ in range(count):
        sure = rng.random() < 0.5
        confidence = rng.uniform(0.97, 0.99) if sure else rng.uniform(0.5, 0.6)
        agreed = rng.random() < (right if sure else 0.5)
        promise.request()
        share = promise.to_answer(confidence)
        by_student = share is not None and rng.random() >= share
        promise.add(confidence, None if by_student else agreed, share)
        answered += by_student
        wrong += by_student and not agreed
    return answered, wrong


def test_nothing_is_answered_before_anything_was_compared() -> None:
    promise = Promise(MAX_LOSS)
    for _ in range(1000):
        promise.request()
    assert promise.to_answer(0.99) is None and promise.standing.check_share == 1.0


def test_a_student_that_is_right_where_it_is_sure_soon_answers_that() -> None:
    promise, rng = Promise(MAX_LOSS), random.Random(0)
    play(promise, rng, 2000, right=0.98)
    answered, wrong = play(promise, rng, 2000, right=0.98)
    assert 0.35 < answered / 2000 < 0.55 and wrong < MAX_LOSS * 2000 * 1.5
    assert promise.standing.check_share < 0.5 and promise.standing.lower >= 1 - MAX_LOSS


@pytest.mark.parametrize("rights", [(0.8,), (0.99, 0.0), (0.99, 0.9, 0.7, 0.3), (0.99, 0.0, 0.99, 0.0)])
def test_more_than_is_promised_is_hardly_ever_lost_by_a_student_that_overrates_itself_or_changes(
    rights: tuple[float, ...],
) -> None:
    broken = 0
    for seed in range(20):
        promise, rng, lost, asked, most = Promise(MAX_LOSS), random.Random(seed), 0, 0, 0.0
        for right in rights:
            for _ in range(60):
                lost, asked = lost + play(promise, rng, 10, right=right)[1], asked + 10
                most = max(most, lost / asked)
        broken += most > MAX_LOSS
    assert broken <= 1


def test_a_student_that_turns_wrong_answers_less_and_more_when_it_is_right_again() -> None:
    promise, rng = Promise(MAX_LOSS), random.Random(0)
    play(promise, rng, 3000, right=0.99)
    _, wrong = play(promise, rng, 600, right=0.0)
    assert wrong < 120
    assert play(promise, rng, 600, right=0.0)[0] < 60
    play(promise, rng, 2000, right=1.0)
    assert play(promise, rng, 500, right=1.0)[0] > 100


def test_answers_that_the_log_does_not_tell_yet_are_taken_for_lost() -> None:
    promise = Promise(MAX_LOSS)
    play(promise, random.Random(0), 2000, right=0.99)
    room = int(promise.standing.room)
    assert promise.to_answer(0.98) is not None and promise.to_answer(0.98, pending=room + 20) is None


def test_some_requests_are_always_checked() -> None:
    promise = Promise(MAX_LOSS)
    play(promise, random.Random(0), 6000, right=1.0)
    assert promise.standing.check_share >= SHARES[-1]


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
