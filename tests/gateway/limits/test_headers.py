"""Rate limit headers in OpenAI's forms."""

from __future__ import annotations

import pytest

from gateway.limits.headers import Rate, duration, rate_headers


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0ms"),
        (0.12, "120ms"),
        (1, "1s"),
        (8.64, "8.64s"),
        (59.999, "60s"),
        (60, "1m0s"),
        (3720, "1h2m0s"),
    ],
)
def test_durations(seconds: float, told: str) -> None:
    assert duration(seconds) == told


def test_three_headers_for_each_limit() -> None:
    assert rate_headers({"requests": Rate(10, -1, 2.5)}) == {
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "2.5s",
    }
