"""How long replicas lately took: failures are slow, and who was not asked for long is like all others."""

from __future__ import annotations

import pytest

from engines.answer_times import AnswerTimes, FirstDataTimes
from tests.engines.asking import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


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


def test_what_streams_lately_needed_is_known_by_model_but_for_one_in_a_hundred() -> None:
    times = FirstDataTimes()
    assert times.needed_s("m") == 0
    for seconds in (1.0, 7.0, 2.0):
        times.took("m", seconds)
    times.took("other", 50.0)
    assert (times.needed_s("m"), times.needed_s("other")) == (7.0, 50.0)
    for _ in range(99):
        times.took("m", 1.0)
    times.took("m", 300.0)
    assert times.needed_s("m") == 1.0


def test_as_many_models_are_kept_as_an_engine_can_have() -> None:
    times = FirstDataTimes()
    for number in range(70):
        times.took(str(number), 1.0)
    assert (times.needed_s("0"), times.needed_s("69")) == (0, 1)
