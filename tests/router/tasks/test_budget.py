"""A budget is spread over the day, and never overrun."""

from __future__ import annotations

import pytest

from router.tasks.budget import Purse
from router.tasks.task import Budget

DAY_S = 86_400.0


class Clock:
    def __init__(self) -> None:
        self.now = 100 * DAY_S

    def __call__(self) -> float:
        return self.now


def test_calls_of_a_day_are_spread_over_the_requests_that_are_expected() -> None:
    clock = Clock()
    purse = Purse(Budget(calls_per_day=100), clock)
    for _ in range(500):
        purse.count(clock.now, called=False)
        clock.now += 86.4
    # As many requests are expected for the second half of the day.
    assert purse.share() == pytest.approx(0.2, rel=0.05)
    for _ in range(100):
        purse.count(clock.now, called=True)
    assert purse.share() == 0.0
    clock.now = 101 * DAY_S + 60
    assert purse.share() > 0.1, "the next day it is renewed, and yesterday's pace is known"


def test_what_this_worker_asks_counts_before_the_log_tells_it() -> None:
    clock = Clock()
    purse = Purse(Budget(calls_per_day=3), clock)
    for _ in range(3):
        assert purse.share() > 0
        purse.call(0.0)
    assert purse.share() == 0.0


def test_dollars_buy_calls_at_what_calls_cost() -> None:
    clock = Clock()
    purse = Purse(Budget(usd_per_day=0.1), clock)
    purse.call(0.01)
    for _ in range(9):
        purse.count(clock.now, called=True)
    assert purse.share() == 0.0


def test_a_share_of_the_requests_is_a_share_of_the_requests() -> None:
    clock, asked = Clock(), 0
    purse = Purse(Budget(share=0.25), clock)
    for _ in range(1000):
        call = purse.share() > 0
        purse.count(clock.now, called=call)
        asked += call
    assert 250 <= asked <= 271


def test_a_share_is_counted_from_the_first_version_on() -> None:
    clock = Clock()
    purse = Purse(Budget(share=0.6), clock)
    for _ in range(300):
        purse.call(0.0)
        purse.count(clock.now, called=True, predicted=False)
    assert purse.share() == 0.6
    for _ in range(51):
        purse.count(clock.now, called=True)
    assert purse.share() == 0.0
