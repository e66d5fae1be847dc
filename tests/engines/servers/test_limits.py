"""What is remembered of a rate limit, with a clock the test moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engines.servers.gate import Gate
from engines.servers.limits import Credentials, RateLimit, with_jitter
from tests.engines.asking import Clock, chat, request


@pytest.fixture
def limit(clock: Clock) -> RateLimit:
    return RateLimit(Gate(clock), clock)


def left(requests: int, reset: str = "5s") -> dict[str, str]:
    return {
        "x-ratelimit-remaining-requests": str(requests),
        "x-ratelimit-limit-requests": "100",
        "x-ratelimit-reset-requests": reset,
    }


@pytest.mark.parametrize(
    ("headers", "for_s", "told_s"),
    [
        ({"Retry-After": "7"}, 7, 7),
        ({"retry-after-ms": "1500", "Retry-After": "7"}, 1.5, 1.5),
        (left(0, "6s"), 6, 6),
        (left(3, "6s"), 1, 1),
        ({"Retry-After": "3600"}, 60, 3600),
        ({"Retry-After": "0"}, 1, 1),
        ({"Retry-After": "Thu, 01 Jan 2015 00:00:00 GMT"}, 1, 1),
        ({"Retry-After": "tomorrow"}, 1, 1),
        ({"Retry-After": "999999999"}, 1, 1),
        ({}, 1, 1),
    ],
)
def test_it_lasts_as_long_as_was_told_and_is_tested_within_a_minute(
    limit: RateLimit, headers: dict[str, str], for_s: float, told_s: float
) -> None:
    assert limit.met(headers) == for_s
    assert limit.gate.opens_in_s == for_s and limit.gate.retry_after_s == told_s


def test_who_meets_it_after_the_first_neither_tests_nor_lengthens_it(limit: RateLimit, clock: Clock) -> None:
    assert limit.met({"Retry-After": "2"}) == 2
    clock.now = 1
    assert limit.met({"Retry-After": "2"}) is None
    assert limit.gate.opens_in_s == 1


def test_nothing_told_doubles_until_an_answer_comes(limit: RateLimit, clock: Clock) -> None:
    waits = []
    for _ in range(8):
        clock.now += limit.gate.opens_in_s
        waits.append(limit.met({}, limit.gate.enter()))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    clock.now += 60
    entered = limit.gate.enter()
    assert entered is not None
    limit.passed()
    entered.succeeded()
    assert limit.met({}) == 1


def test_the_last_twentieth_is_spared_until_it_is_full_again(limit: RateLimit, clock: Clock) -> None:
    limit.sent = 1
    assert limit.told(left(6), sent=1) == 0.06
    assert not limit.spares(request())
    limit.sent = 2
    assert limit.spares(request()), "one more was sent since: five are left"
    clock.now = 5
    assert not limit.spares(request())


def test_an_answer_to_an_older_request_tells_nothing_new(limit: RateLimit) -> None:
    limit.sent = 2
    limit.told(left(4), sent=2)
    limit.told(left(90), sent=1)
    assert limit.spares(request())


def test_a_request_with_more_tokens_than_are_left_is_spared(limit: RateLimit) -> None:
    limit.told(
        {
            "x-ratelimit-remaining-tokens": "1000",
            "x-ratelimit-limit-tokens": "10000",
            "x-ratelimit-reset-tokens": "30s",
        },
        sent=0,
    )
    assert not limit.spares(chat())
    assert limit.spares(chat(max_tokens=2000))
    assert limit.spares(chat(user="x" * 8000))


def test_what_is_never_full_again_is_not_spared(limit: RateLimit) -> None:
    limit.told({**left(0), "x-ratelimit-reset-requests": "garbage"}, sent=0)
    assert not limit.spares(request())


def test_each_credential_has_its_own_limit_and_the_latest_ten_thousand_are_kept() -> None:
    credentials = Credentials(("X-Team",))
    one = credentials.of(chat(headers={"Authorization": "Bearer one"}))
    assert credentials.of(chat(headers={"authorization": "Bearer one"})) is one
    for other in (
        chat(headers={"Authorization": "Bearer two"}),
        chat(headers={"x-api-key": "Bearer one"}),
        chat(headers={"Authorization": "Bearer one", "X-Team": "b"}),
        replace(chat(headers={"Authorization": "Bearer one"}), target="/chat/completions?key=1"),
    ):
        assert credentials.of(other) is not one
    for number in range(10_000):
        credentials.of(chat(headers={"Authorization": f"Bearer {number}"}))
    assert len(credentials) == 10_000
    assert credentials.of(chat(headers={"Authorization": "Bearer one"})) is not one


def test_jitter_only_adds() -> None:
    waits = [with_jitter(4.0) for _ in range(1000)]
    assert min(waits) >= 4.0 and max(waits) <= 5.0 and max(waits) - min(waits) > 0.5
