"""Calendar windows: which day, week or month a moment belongs to in a time zone. Pure functions of the moment.

A window is the same whoever asks and whenever: a clock that is set back finds the window again that it had left, with what
was spent in it. A day that daylight saving begins on has 23 hours, one that it ends on 25.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from store.people.limits import Period

ENDLESS_S = 253_370_764_800.0
"""The year 9999: when what never begins anew would."""
MINUTE_S = 60


class Span(NamedTuple):
    """From `start_s` up to, but without, `ends_s`; Unix seconds."""

    start_s: int
    ends_s: float


def minute(at_s: float) -> Span:
    """The minute of a moment."""
    start_s = int(at_s // MINUTE_S) * MINUTE_S
    return Span(start_s, float(start_s + MINUTE_S))


def span(per: Period, zone: str, at_s: float) -> Span:
    """The day, the week (from Monday) or the month of a moment in a time zone; `total`: everything there ever is.

    Raises ValueError for a moment outside the years 2 to 9998, and what ZoneInfo raises for an unknown zone.
    """
    if per == "total":
        return Span(0, ENDLESS_S)
    today = datetime.fromtimestamp(at_s, ZoneInfo(zone)).date()
    found = _span(per, zone, today)
    if found.start_s <= at_s < found.ends_s:
        return found
    # A zone that skipped a whole day, or whose midnight comes twice: the neighbour that holds the moment.
    for days in (-1, 1):
        near = _span(per, zone, today + timedelta(days=days))
        if near.start_s <= at_s < near.ends_s:
            return near
    return found


@lru_cache(maxsize=4096)
def _span(per: Period, zone: str, day: date) -> Span:
    first = day
    if per == "week":
        first = day - timedelta(days=day.weekday())
    elif per == "month":
        first = day.replace(day=1)
    after = first + timedelta(days=1)
    if per == "week":
        after = first + timedelta(days=7)
    elif per == "month":
        after = (first + timedelta(days=31)).replace(day=1)
    return Span(int(_begins(first, zone)), _begins(after, zone))


def _begins(day: date, zone: str) -> float:
    """The first moment of a day. Where midnight does not exist, what the clock jumps to; where it comes twice, the first."""
    midnight = datetime.combine(day, time(0), ZoneInfo(zone))
    return midnight.astimezone(UTC).timestamp()
