"""Windows open when the cron expression says, once per night also when the clocks change, and close in time."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learning.replay.nightly import Schedule, Window

ROME = ZoneInfo("Europe/Rome")
H = 3600.0


def at(text: str, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ROME, fold=fold).timestamp()


def test_a_window_opens_at_its_time_and_closes_after_its_length() -> None:
    nightly = Schedule("0 2 * * *", ROME, 6 * H)
    assert nightly.window(at("2026-11-21T01:59:59")) is None
    assert nightly.window(at("2026-11-21T02:00:00")) == Window(at("2026-11-21T02:00"), at("2026-11-21T08:00"))
    assert nightly.window(at("2026-11-21T07:59:59")) is not None
    assert nightly.window(at("2026-11-21T08:00:00")) is None
    assert nightly.next_s(at("2026-11-21T02:00:00")) == at("2026-11-22T02:00")


def test_a_window_ends_when_the_next_begins() -> None:
    hourly = Schedule("0 * * * *", UTC, 6 * H)
    assert hourly.window(10_000 * H + 5) == Window(10_000 * H, 10_001 * H)


@pytest.mark.parametrize(
    ("now", "fold", "begins"),
    [
        # 2:30 does not exist that night: it comes right after the gap, as with Debian's cron.
        ("2026-03-29T03:10", 0, "2026-03-29T03:00"),
        # 2:30 comes twice that night: once is enough.
        ("2026-10-25T02:45", 0, "2026-10-25T02:30"),
        ("2026-10-25T02:15", 1, "2026-10-25T02:30"),
        ("2026-10-25T02:45", 1, "2026-10-25T02:30"),
        ("2026-10-25T05:00", 0, "2026-10-25T02:30"),
    ],
)
def test_a_night_when_the_clocks_change_has_one_window(now: str, fold: int, begins: str) -> None:
    nightly = Schedule("30 2 * * *", ROME, 6 * H)
    window = nightly.window(at(now, fold))
    assert window is not None and window.begins_s == at(begins)
    following = nightly.next_s(at(now, fold))
    assert following is not None and following > at(now[:10] + "T23:00")


def test_without_cron_the_quietest_hour_of_each_day_opens_one() -> None:
    by_habit = Schedule(None, ROME, 3 * H, lambda weekday: 13 if weekday == 6 else 4)
    assert by_habit.window(at("2026-11-21T05:00")) == Window(at("2026-11-21T04:00"), at("2026-11-21T07:00"))
    assert by_habit.window(at("2026-11-22T05:00")) is None, "a Sunday"
    assert by_habit.next_s(at("2026-11-22T05:00")) == at("2026-11-22T13:00")


@given(
    st.integers(1_700_000_000, 1_900_000_000),
    st.sampled_from(["0 2 * * *", "*/7 * * * *", "5 4 * * SUN", None]),
)
def test_now_lies_in_its_window_and_before_the_next(now_s: int, cron: str | None) -> None:
    schedule = Schedule(cron, ROME, 24 * H, lambda weekday: weekday)
    window, following = schedule.window(now_s), schedule.next_s(now_s)
    assert following is not None and following > now_s
    if window is not None:
        assert window.begins_s <= now_s < window.ends_s <= following
