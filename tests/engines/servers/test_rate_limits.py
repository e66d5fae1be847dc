"""What an upstream says of its limits is believed; what is no number is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.servers.rate_limits import exhausted_s, limits_told, share_left, time_left_s


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


NOW_S = 1_767_225_600.0
"""2026-01-01."""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6m0s", 360),
        ("1.5s", 1.5),
        ("120ms", 0.12),
        ("1h2m3s", 3723),
        ("1d", 86_400),
        ("7", 7),
        ("0.25", 0.25),
        (f"{NOW_S + 90:.0f}", 90),
        (f"{(NOW_S + 90) * 1000:.0f}", 90),
        ("2026-01-01T00:01:30Z", 90),
        ("2026-01-01T01:01:30+01:00", 90),
        ("Thu, 01 Jan 2026 00:01:30 GMT", 90),
    ],
)
def test_every_way_to_name_a_time_is_understood(text: str, seconds: float) -> None:
    assert time_left_s(text, NOW_S) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "soon", "-5", "0", "0s", "nan", "inf", "1e300", "s", "6m0", "9" * 400, "\u0663"]
)
def test_what_makes_no_sense_is_ignored(text: str) -> None:
    assert time_left_s(text, NOW_S) is None


@pytest.mark.parametrize("text", [f"{NOW_S - 1:.0f}", "2025-12-31T23:59:59Z", "2027-01-01T00:00:00Z"])
def test_the_past_and_next_year_are_ignored(text: str) -> None:
    assert time_left_s(text, NOW_S) is None


@given(st.text(max_size=80))
def test_no_header_ever_raises(text: str) -> None:
    seconds = time_left_s(text, NOW_S)
    assert seconds is None or seconds > 0


def test_a_limit_that_is_used_up_says_until_when() -> None:
    told = limits_told(
        {
            "x-ratelimit-remaining-requests": "5",
            "x-ratelimit-reset-requests": "6m0s",
            "x-ratelimit-remaining-tokens": "0",
            "x-ratelimit-limit-tokens": "100",
            "x-ratelimit-reset-tokens": "1.5s",
        }
    )
    assert exhausted_s(told) == 1.5
    assert exhausted_s([one for one in told if one.left]) is None


def test_anthropics_limits_are_read() -> None:
    told = limits_told(
        {
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-limit": "50",
            "anthropic-ratelimit-requests-reset": "2026-01-01T00:00:07Z",
        },
        NOW_S,
    )
    assert exhausted_s(told) == 7 and share_left(told) == 0
