"""A usual week is learnt from little and from much; odd hours teach no habit; the limit is what quiet hours stay within."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from learning.replay.off_peak import hour_of_week, poisson_quantile, usual_week

MONDAY = int(datetime(2026, 11, 2, tzinfo=UTC).timestamp()) // 3600


def office_hours(weeks: int, busy: float = 20.0, night: float = 0.2) -> dict[int, float]:
    """Busy seconds: `busy` in flight on weekdays from 8 to 18, `night` otherwise."""
    loads = {}
    for hour in range(weeks * 168):
        day, at = divmod(hour % 168, 24)
        loads[MONDAY + hour] = 3600 * (busy if day < 5 and 8 <= at < 18 else night)
    return loads


def learnt(loads: dict[int, float], hours: int, zone: object = UTC, quiet_share: float = 0.25):  # type: ignore[no-untyped-def]
    return usual_week(loads, first_hour=MONDAY, end_hour=MONDAY + hours, zone=zone, quiet_share=quiet_share)  # type: ignore[arg-type]


def test_nothing_observed_means_nothing_is_known() -> None:
    week = learnt({}, 0)
    assert (week.observed_hours, week.quiet_in_flight, week.limit) == (0, 0.0, 0)
    assert week.quiet(datetime(2026, 11, 3, 12, tzinfo=UTC))


def test_nights_and_weekends_are_told_from_office_hours() -> None:
    week = learnt(office_hours(4), 4 * 168)
    assert not week.quiet(datetime(2026, 12, 1, 11, tzinfo=UTC)), "a Tuesday morning"
    assert week.quiet(datetime(2026, 12, 6, 4, tzinfo=UTC)), "a Sunday night"
    assert 0 < week.quiet_in_flight < 2 and 0 < week.limit < 6
    assert week.quietest_hour(1) in {*range(8), *range(18, 24)}


def test_after_one_day_the_hours_of_the_day_are_known_for_every_day() -> None:
    week = learnt(office_hours(1), 24)
    saturday_noon, saturday_night = (
        datetime(2026, 11, 7, 12, tzinfo=UTC),
        datetime(2026, 11, 7, 3, tzinfo=UTC),
    )
    assert week.in_flight[hour_of_week(saturday_noon)] > week.in_flight[hour_of_week(saturday_night)]


def test_one_odd_night_is_not_a_habit() -> None:
    loads = office_hours(4)
    usual = learnt(loads, 4 * 168)
    loads[MONDAY + 168 + 24 * 2 + 3] = 3600 * 10_000.0
    odd = learnt(loads, 4 * 168)
    at = datetime(2026, 12, 2, 3, tzinfo=UTC)
    assert odd.in_flight[hour_of_week(at)] < 6 and odd.limit == usual.limit


def test_hours_are_local_ones() -> None:
    rome = learnt(office_hours(4), 4 * 168, ZoneInfo("Europe/Rome"))
    noon_utc = datetime(2026, 12, 1, 12, tzinfo=UTC)
    # Office hours 8 to 18 UTC are 9 to 19 in Rome in winter.
    assert not rome.quiet((noon_utc + timedelta(hours=5)).astimezone(ZoneInfo("Europe/Rome")))
    assert (
        rome.in_flight[hour_of_week(datetime(2026, 12, 1, 8))]
        < 2
        < rome.in_flight[hour_of_week(datetime(2026, 12, 1, 18))]
    )


def test_an_hour_of_the_week_is_shrunk_as_worked_by_hand() -> None:
    # One week with nothing but two in flight on Monday from 0 to 1, winsorising aside (all other hours at 1).
    loads = {MONDAY + hour: 3600.0 for hour in range(168)} | {MONDAY + h: 7200.0 for h in range(8)}
    week = learnt(loads, 168)
    mean = (8 * 2 + 160) / 168
    of_day = (2 + 6 * 1 + mean) / 8
    assert math.isclose(week.in_flight[0], (2 + of_day) / 2)


@given(st.floats(0, 2000), st.sampled_from([0.5, 0.95, 0.999]))
def test_the_limit_is_reached_with_at_least_its_probability_and_no_larger_than_needed(
    mean: float, probability: float
) -> None:
    n = poisson_quantile(mean, probability)
    if mean > 500:
        assert abs(n - mean) < 5 * math.sqrt(mean)
        return

    def below(k: int) -> float:
        return (
            sum(math.exp(i * math.log(mean) - mean - math.lgamma(i + 1)) for i in range(k + 1))
            if mean
            else 1.0
        )

    assert below(n) >= probability - 1e-9
    assert n == 0 or below(n - 1) < probability + 1e-9


@given(
    st.dictionaries(st.integers(0, 500), st.floats(0, 1e6), max_size=60),
    st.integers(0, 500),
    st.floats(0.01, 1),
)
def test_some_hours_are_always_quiet_and_nothing_is_negative(
    loads: dict[int, float], hours: int, quiet_share: float
) -> None:
    week = learnt({MONDAY + h: s for h, s in loads.items()}, hours, quiet_share=quiet_share)
    assert len(week.in_flight) == 168 and min(week.in_flight) >= 0 and np.isfinite(week.in_flight).all()
    quiet = [x for x in week.in_flight if x <= week.quiet_in_flight]
    assert len(quiet) >= math.floor(quiet_share * 168)
    assert week.limit >= math.floor(week.quiet_in_flight) - 1
