"""When an engine is left alone, with a clock the test moves."""

from __future__ import annotations

import pytest

from engines.errors import Kind
from engines.servers.breaker import Breaker, State
from engines.servers.gate import Pass
from tests.engines.asking import Clock


@pytest.fixture
def alarms() -> list[str]:
    return []


@pytest.fixture
def breaker(clock: Clock, alarms: list[str]) -> Breaker:
    """Opens after three failures, for ten seconds."""
    return Breaker(failures=3, open_s=10, clock=clock, alarm=lambda: alarms.append("refused"))


def fail(breaker: Breaker, times: int = 3) -> None:
    for _ in range(times):
        breaker.failed()


def probe(breaker: Breaker) -> Pass:
    assert breaker.gate.lets_through
    entered = breaker.gate.enter()
    assert entered is not None and breaker.state is State.PROBING
    return entered


def test_failures_that_are_not_consecutive_open_nothing(breaker: Breaker) -> None:
    for _ in range(5):
        fail(breaker, 2)
        breaker.answered()
    assert breaker.state is State.CLOSED and breaker.gate.lets_through


def test_it_opens_at_the_limit_and_for_its_time(breaker: Breaker, clock: Clock) -> None:
    fail(breaker)
    clock.now = 2.5
    assert breaker.state is State.OPEN and not breaker.gate.lets_through
    assert breaker.gate.retry_after_s == 7.5


def test_failures_of_requests_from_before_do_not_make_it_longer(breaker: Breaker, clock: Clock) -> None:
    fail(breaker)
    clock.now = 5
    fail(breaker)
    assert breaker.gate.retry_after_s == 5


def test_an_answer_from_before_the_failures_lets_one_request_find_out(breaker: Breaker, clock: Clock) -> None:
    fail(breaker)
    clock.now = 1
    assert not breaker.gate.lets_through
    breaker.answered()
    entered = probe(breaker)
    assert not breaker.gate.lets_through, "one, and no more"
    breaker.answered()
    assert not breaker.gate.lets_through
    breaker.failed(entered)
    clock.now = 10.9
    assert breaker.state is State.OPEN and not breaker.gate.lets_through


def test_a_probe_that_begins_to_be_answered_closes_it_on_trial(breaker: Breaker, clock: Clock) -> None:
    fail(breaker)
    clock.now = 10
    breaker.probed(probe(breaker))
    assert breaker.state is State.CLOSED
    breaker.failed()
    assert breaker.state is State.OPEN, "its stream broke off"


def test_an_answer_that_came_to_its_end_ends_the_trial(breaker: Breaker, clock: Clock) -> None:
    fail(breaker)
    clock.now = 10
    breaker.probed(probe(breaker))
    breaker.answered()
    fail(breaker, 2)
    assert breaker.state is State.CLOSED


def test_a_probe_that_fails_opens_it_again_at_once(breaker: Breaker, clock: Clock) -> None:
    fail(breaker)
    clock.now = 10
    breaker.failed(probe(breaker))
    clock.now = 19.9
    assert breaker.state is State.OPEN and not breaker.gate.lets_through


def test_refusals_in_a_row_are_left_alone_for_longer_and_longer_with_one_alarm(
    breaker: Breaker, clock: Clock, alarms: list[str]
) -> None:
    for _ in range(2):
        breaker.refused()
    assert breaker.state is State.CLOSED
    breaker.refused()
    assert breaker.state is State.REFUSED and breaker.gate.retry_after_s == 60
    for wait_s in (120, 240, 480, 600, 600):
        clock.now += breaker.gate.retry_after_s
        breaker.refused(probe(breaker))
        assert breaker.gate.retry_after_s == pytest.approx(wait_s)
    assert alarms == ["refused"]
    clock.now += 600
    breaker.probed(probe(breaker))
    breaker.answered()
    assert breaker.state is State.CLOSED
    for _ in range(3):
        breaker.refused()
    assert breaker.gate.retry_after_s == 60 and alarms == ["refused"] * 2


def test_refusals_between_answers_are_about_the_requests(breaker: Breaker) -> None:
    for _ in range(5):
        breaker.refused()
        breaker.refused()
        breaker.answered()
    assert breaker.state is State.CLOSED


def test_a_rate_limit_that_is_over_puts_nothing_on_trial(breaker: Breaker, clock: Clock) -> None:
    breaker.gate.shut(Kind.LIMITED, 2)
    assert breaker.state is State.LIMITED
    clock.now = 2
    breaker.probed(probe(breaker))
    fail(breaker, 2)
    assert breaker.state is State.CLOSED
