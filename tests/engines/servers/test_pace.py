"""One slow answer counts for a while, failures are slow, and who was not asked for long is like all others."""

from __future__ import annotations

import pytest

from engines.servers.pace import AnswerTimes, Pace
from tests.engines.asking import Clock


def test_nothing_is_known_before_the_first_answer() -> None:
    assert (Pace().first_chunk_s, Pace().answer_s) == (None, None)


def test_a_slow_answer_is_forgotten_within_some_dozens() -> None:
    pace = Pace()
    pace.ended(10.0)
    assert pace.answer_s == 10.0
    for _ in range(60):
        pace.ended(1.0)
    assert pace.answer_s == pytest.approx(1.0, abs=0.05)


def test_first_chunks_and_whole_answers_are_kept_apart() -> None:
    pace = Pace()
    pace.began(0.2)
    pace.ended(3.0)
    assert (pace.first_chunk_s, pace.answer_s) == (0.2, 3.0)


def test_the_fastest_first_chunk_stands_for_an_idle_engine_until_it_is_slower_for_long() -> None:
    pace = Pace()
    for seconds in (0.2, 2.0, 3.0):
        pace.began(seconds)
    assert pace.idle_first_chunk_s == pytest.approx(0.2, rel=0.02)
    for _ in range(1000):
        pace.began(1.0)
    assert pace.idle_first_chunk_s == pytest.approx(1.0)


def test_those_that_nobody_has_asked_are_expected_to_be_like_the_mean(clock: Clock) -> None:
    times = AnswerTimes(clock)
    one, other, new = (times.another() for _ in range(3))
    assert one.seconds(times.mean_s, busy=False) == new.seconds(times.mean_s, busy=False)
    one.took(1.0)
    other.took(3.0)
    assert times.mean_s == 2 and new.seconds(times.mean_s, busy=True) == 2


def test_new_answers_count_more(clock: Clock) -> None:
    one = AnswerTimes(clock).another()
    for _ in range(50):
        one.took(1.0)
    for _ in range(50):
        one.took(2.0)
    assert one.last_s is not None and 1.99 < one.last_s < 2


def test_what_is_not_used_fades_to_the_mean_in_thirty_seconds(clock: Clock) -> None:
    times = AnswerTimes(clock)
    slow, fast = times.another(), times.another()
    slow.took(3.0)
    fast.took(1.0)
    for after_s, expected_s in ((0, 3.0), (15, 2.5), (30, 2.0), (300, 2.0)):
        clock.now = after_s
        assert slow.seconds(times.mean_s, busy=False) == pytest.approx(expected_s)
        assert slow.seconds(times.mean_s, busy=True) == 3.0


def test_a_failure_never_makes_it_look_faster_however_fast_it_came(clock: Clock) -> None:
    times = AnswerTimes(clock)
    good, bad = times.another(), times.another()
    good.took(1.0)
    before = bad.seconds(times.mean_s, busy=False)
    for _ in range(20):
        bad.failed(0.001)
        now = bad.seconds(times.mean_s, busy=True)
        assert now > before
        before = now
    bad.failed(10_000.0)
    assert bad.seconds(times.mean_s, busy=True) <= 600
