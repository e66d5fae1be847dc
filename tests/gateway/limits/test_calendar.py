"""Which day, week or month a moment belongs to: across daylight saving, month ends and clocks that jump."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.limits.calendar import ENDLESS_S, minute, span
from store.people.limits import Period

ZONES = (
    *("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Apia", "Africa/Casablanca"),
    *("America/Sao_Paulo", "Asia/Beirut", "Australia/Lord_Howe", "Pacific/Kiritimati", "America/St_Johns"),
)
MOMENTS = st.floats(0, 4e9, allow_nan=False)
PERIODS = st.sampled_from(["day", "week", "month"])


@given(PERIODS, st.sampled_from(ZONES), MOMENTS)
def test_a_moment_is_in_its_window_and_windows_join_without_gap_or_overlap(
    per: Period, zone: str, at_s: float
) -> None:
    found = span(per, zone, at_s)
    assert found.start_s <= at_s < found.ends_s
    # The same whoever asks, whenever: at its first and last moment, too.
    assert span(per, zone, found.start_s) == found
    assert span(per, zone, found.ends_s - 0.001) == found
    assert span(per, zone, found.ends_s).start_s == found.ends_s
    assert span(per, zone, found.start_s - 0.001).ends_s == found.start_s


@given(st.sampled_from(ZONES), MOMENTS)
def test_a_day_lies_in_one_week_and_one_month(zone: str, at_s: float) -> None:
    day = span("day", zone, at_s)
    for per in ("week", "month"):
        whole = span(per, zone, at_s)
        assert whole.start_s <= day.start_s and day.ends_s <= whole.ends_s


@given(st.sampled_from(ZONES), MOMENTS)
def test_weeks_begin_on_mondays_and_months_on_the_first(zone: str, at_s: float) -> None:
    # A day may begin at one o'clock, where midnight does not exist.
    week = datetime.fromtimestamp(span("week", zone, at_s).start_s, ZoneInfo(zone))
    month = datetime.fromtimestamp(span("month", zone, at_s).start_s, ZoneInfo(zone))
    assert week.weekday() == 0 and month.day == 1


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", (2026, 3, 29), 23),
        ("Europe/Berlin", (2026, 10, 25), 25),
        ("Europe/Berlin", (2026, 6, 1), 24),
        ("Australia/Lord_Howe", (2026, 4, 5), 24.5),
        ("Asia/Beirut", (2026, 3, 29), 23),
    ],
)
def test_days_of_daylight_saving(zone: str, day: tuple[int, int, int], hours: float) -> None:
    noon_s = datetime(*day, 12, tzinfo=ZoneInfo(zone)).timestamp()
    found = span("day", zone, noon_s)
    assert (found.ends_s - found.start_s) / 3600 == hours


@pytest.mark.parametrize(
    ("year", "month", "days"), [(2026, 2, 28), (2028, 2, 29), (2026, 12, 31), (2027, 1, 31), (2026, 4, 30)]
)
def test_months_end_where_the_calendar_says(year: int, month: int, days: int) -> None:
    last_s = datetime(year, month, days, 23, 59, 59, tzinfo=UTC).timestamp()
    found = span("month", "UTC", last_s)
    assert found.ends_s - found.start_s == timedelta(days=days).total_seconds()
    assert span("month", "UTC", last_s + 1).start_s == found.ends_s


def test_a_clock_that_is_set_back_finds_the_window_that_it_had_left() -> None:
    before = span("day", "Europe/Berlin", 1.8e9)
    assert span("day", "Europe/Berlin", 1.8e9 + 86_400) != before
    assert span("day", "Europe/Berlin", 1.8e9) == before
    assert minute(1.8e9 + 61) != minute(1.8e9) == minute(1.8e9 + 1)


def test_what_never_begins_anew_is_one_window() -> None:
    assert span("total", "UTC", 1.0) == span("total", "Asia/Tokyo", 4e9) == (0, ENDLESS_S)


def test_a_zone_that_left_out_a_day_has_no_window_for_it() -> None:
    # Samoa had no 30 December 2011.
    before = span(
        "day", "Pacific/Apia", datetime(2011, 12, 29, 12, tzinfo=ZoneInfo("Pacific/Apia")).timestamp()
    )
    after = span("day", "Pacific/Apia", before.ends_s)
    assert datetime.fromtimestamp(after.start_s, ZoneInfo("Pacific/Apia")).day == 31
