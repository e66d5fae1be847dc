"""Times of a cron expression, also where clocks change."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from learning.ticks import latest_tick, next_tick

ROME = ZoneInfo("Europe/Rome")


def at(year: int, month: int, day: int, hour: int, minute: int) -> float:
    return datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()


def test_the_latest_and_the_next_time_are_on_either_side_of_now() -> None:
    two = at(2026, 6, 1, 0, 0)
    assert latest_tick("0 2 * * *", ROME, two) == two
    assert latest_tick("0 2 * * *", ROME, two - 1) == two - 86_400
    assert next_tick("0 2 * * *", ROME, two) == two + 86_400
    assert next_tick("0 2 * * *", UTC, two) == two + 2 * 3600


def test_a_repeated_hour_comes_once() -> None:
    before, after = at(2026, 10, 24, 22, 0), at(2026, 10, 25, 12, 0)
    tick = next_tick("30 2 * * *", ROME, before)
    assert tick is not None
    later = next_tick("30 2 * * *", ROME, tick)
    assert latest_tick("30 2 * * *", ROME, after) == tick and later is not None and later > after
