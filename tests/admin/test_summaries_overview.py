"""The overview's figures, from a log that is known."""

from __future__ import annotations

from admin.summaries.overview import SPANS


def test_the_spans_are_an_hour_a_day_and_a_week() -> None:
    assert {name: seconds / 3600 for name, seconds in SPANS.items()} == {"hour": 1, "day": 24, "week": 168}
