"""What answers may have lost stays within the promise, whatever the engine does."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

import pytest

from router.guarantee.ledger import SHARES, Ledger

LATE = 20


def played(wrong: Callable[[int, int], float], seed: int, requests: int = 2500) -> tuple[float, int]:
    """Play a stream whose engine is wrong with probability `wrong(place, served)`; checks come `LATE` requests after.

    Returns the largest mean loss, and how many requests it answered.
    """
    draw, ledger, waiting = random.Random(seed), Ledger(0.05, 0.05), deque[tuple[int, int, float, float]]()
    lost = most = 0.0
    for place in range(requests):
        while waiting and waiting[0][0] <= place:
            _, number, share, loss = waiting.popleft()
            ledger.check(ledger.by, number, share, loss)
        ledger.asked += 1
        if ledger.allows():
            share = ledger.share()
            loss = float(draw.random() < wrong(place, ledger.served))
            number = ledger.serve()
            lost += loss
            if draw.random() < share:
                waiting.append((place + LATE, number, share, loss))
        most = max(most, lost / (place + 1))
    return most, ledger.served


@pytest.mark.parametrize(
    "wrong",
    [
        lambda place, served: 0.02,
        lambda place, served: 0.01 if place < 1250 else 1.0,
        lambda place, served: 0.01 + 0.19 * place / 2500,
        lambda place, served: 0.01 if served < 50 else 0.2,
        lambda place, served: 1.0,
    ],
    ids=["good", "collapse", "decline", "sleeper", "junk"],
)
def test_more_than_the_promise_is_hardly_ever_lost(wrong: Callable[[int, int], float]) -> None:
    assert sum(played(wrong, seed)[0] > 0.05 for seed in range(20)) <= 1


def test_a_good_engine_answers_most_requests_after_a_while() -> None:
    shares = [played(lambda place, served: 0.02, seed)[1] / 2500 for seed in range(5)]
    assert min(shares) > 0.5


def test_an_answer_that_was_not_given_out_after_all_counts_for_nothing() -> None:
    ledger, other = Ledger(0.05, 0.05), Ledger(0.05, 0.05)
    ledger.asked = other.asked = 1000
    for _ in range(3):
        ledger.serve(0.01)
        other.serve(0.01)
    before = other.room()
    for _ in range(50):
        share = other.share()
        other.take_back(other.serve(0.01), share, 0.01)
    assert other.room() == pytest.approx(before) == pytest.approx(ledger.room())


def test_checks_that_do_not_come_back_end_it() -> None:
    ledger = Ledger(0.05, 0.05)
    ledger.asked = 10_000
    for _ in range(10_000):
        if ledger.allows():
            ledger.serve()
    assert ledger.served <= 500


def test_what_other_workers_noted_counts() -> None:
    ledger = Ledger(0.05, 0.05)
    before = ledger.room()
    ledger.note(1, 1000)
    ledger.note(1, 3000)
    ledger.note(ledger.by, 9000)
    assert ledger.room() == pytest.approx(before + 0.05 * 2000)
    ledger.check(1, 7, SHARES[0], 1.0)
    assert 1.0 < ledger.lost() <= 7.0, "one was caught, and more may be hidden"


def test_what_is_lost_by_the_judges_error_alone_is_excused() -> None:
    ledger = Ledger(0.05, 0.05)
    ledger.asked = 1000
    for _ in range(200):
        ledger.check(ledger.by, ledger.serve(excused=0.0), SHARES[0], 1.0)
    excused = Ledger(0.05, 0.05)
    excused.asked = 1000
    for _ in range(200):
        excused.check(excused.by, excused.serve(excused=0.5), SHARES[0], 1.0)
    assert excused.lost() == pytest.approx(ledger.lost() - 100.0)


def test_a_worker_knows_what_others_gave_out_and_excuses_as_much_as_they_do() -> None:
    here = Ledger(0.05, 0.05)
    for number in range(1, 2001):
        here.note(7, number)
        if number % 4 == 0:
            here.check(7, number, 0.25, loss=float(number % 40 == 0), excused=0.01)
    assert (here.requests, here.given) == (1999, 2000)
    without = Ledger(0.05, 0.05)
    for number in range(4, 2001, 4):
        without.note(7, number)
        without.check(7, number, 0.25, loss=float(number % 40 == 0))
    assert here.lost() == pytest.approx(without.lost() - 20)


def test_an_answer_that_is_believed_loses_more_if_its_checks_do_not_come_back() -> None:
    watched, unwatched = Ledger(0.05, 0.05), Ledger(0.05, 0.05)
    for number in range(400):
        watched.assume(0.01, 0.25)
        unwatched.assume(0.01, 0.25)
        if number % 4 == 0:
            watched.check_assumed(watched.by)
            unwatched.check_assumed(watched.by)
    assert watched.lost() == pytest.approx(4.0)
    assert unwatched.lost() > 40.0
    watched.take_back_assumed(0.01, 0.25)
    assert watched.lost() == pytest.approx(3.99)
