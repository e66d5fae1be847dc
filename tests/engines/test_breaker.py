"""The breaker's states, with a clock the test moves."""

from __future__ import annotations

import pytest

from engines.breaker import Breaker, State
from engines.errors import Unavailable


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    """Opens after three failures, for ten seconds."""
    return Breaker("big", failures=3, open_s=10, clock=clock)


def fail(breaker: Breaker, times: int = 3) -> None:
    for _ in range(times):
        breaker.failed()


def test_failures_that_are_not_consecutive_open_nothing(breaker: Breaker) -> None:
    for _ in range(5):
        fail(breaker, 2)
        breaker.succeeded()
    assert breaker.state is State.CLOSED and breaker.admit() is False


def test_it_refuses_from_the_limit_on_and_says_for_how_long(breaker: Breaker, clock: Clock) -> None:
    fail(breaker)
    clock.now = 2.5
    with pytest.raises(Unavailable, match=r"'big' .* 8 s") as refused:
        breaker.admit()
    assert refused.value.retry_after_s == 7.5 and refused.value.engine == "big"


def test_one_request_probes_when_the_rest_is_over(breaker: Breaker, clock: Clock) -> None:
    fail(breaker)
    clock.now = 10
    assert breaker.admit() is True and breaker.state is State.PROBING
    with pytest.raises(Unavailable) as refused:
        breaker.admit()
    assert refused.value.retry_after_s == 1, "soon: the probe is under way"


def test_a_probe_that_succeeds_closes_it(breaker: Breaker, clock: Clock) -> None:
    fail(breaker)
    clock.now = 10
    breaker.admit()
    breaker.succeeded()
    assert breaker.state is State.CLOSED
    fail(breaker, 2)
    assert breaker.admit() is False, "the count began anew"


def test_a_probe_that_fails_opens_it_again_at_once(breaker: Breaker, clock: Clock) -> None:
    fail(breaker)
    clock.now = 10
    breaker.admit()
    breaker.failed()
    clock.now = 19.9
    with pytest.raises(Unavailable):
        breaker.admit()
    clock.now = 20
    assert breaker.admit() is True


def test_an_abandoned_probe_leaves_the_next_request_to_probe(breaker: Breaker, clock: Clock) -> None:
    fail(breaker)
    clock.now = 10
    breaker.admit()
    breaker.abandoned()
    assert breaker.admit() is True


def test_abandoning_means_nothing_to_a_closed_breaker(breaker: Breaker) -> None:
    breaker.abandoned()
    assert breaker.state is State.CLOSED and breaker.admit() is False


def test_a_late_failure_while_open_extends_the_rest(breaker: Breaker, clock: Clock) -> None:
    """A request that was under way when it opened, and failed after."""
    fail(breaker)
    clock.now = 5
    breaker.failed()
    clock.now = 10
    with pytest.raises(Unavailable):
        breaker.admit()


def test_a_breaker_whose_rest_is_over_lets_itself_be_chosen_again() -> None:
    now = [0.0]
    breaker = Breaker("e", failures=1, open_s=10, clock=lambda: now[0])
    assert breaker.lets_through
    breaker.failed()
    assert not breaker.lets_through
    now[0] = 10.0
    # Who chooses engines by this would otherwise never send the request that closes it.
    assert breaker.lets_through
