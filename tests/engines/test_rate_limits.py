"""What an upstream says of its limits is believed; what is no number is not."""

from __future__ import annotations

import pytest

from engines.rate_limits import limits_told, share_left


@pytest.mark.parametrize(
    ("headers", "share"),
    [
        ({}, None),
        ({"x-ratelimit-remaining-requests": "25", "x-ratelimit-limit-requests": "100"}, 0.25),
        (
            {
                "x-ratelimit-remaining-requests": "90",
                "x-ratelimit-limit-requests": "100",
                "x-ratelimit-remaining-tokens": "1000",
                "x-ratelimit-limit-tokens": "10000",
            },
            0.1,
        ),
        ({"x-ratelimit-remaining-requests": "25"}, None),
        ({"x-ratelimit-remaining-requests": "-1", "x-ratelimit-limit-requests": "100"}, None),
        ({"x-ratelimit-remaining-requests": "5", "x-ratelimit-limit-requests": "0"}, None),
        ({"x-ratelimit-remaining-requests": "500", "x-ratelimit-limit-requests": "100"}, 1.0),
    ],
)
def test_the_tightest_limit_counts(headers: dict[str, str], share: float | None) -> None:
    assert share_left(limits_told(headers)) == share
