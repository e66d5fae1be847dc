"""A usual week is learnt, quiet hours set the limit, and the gate closes above it and opens only after calm."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learning.replay import off_peak
from learning.replay.off_peak import (
    OffPeakGate,
    Quiet,
    UsualTraffic,
    UsualWeek,
    hour_of_week,
    poisson_quantile,
    usual_week,
)
from store import Store
from store.decisions.requests import HOUR_S
from store.jobs.live_load import LiveLoad, live_load
from tests.store.rows import request_record
from understudy.background import load_report
from understudy.background.load_report import LoadReporter

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


def is_quiet(week: UsualWeek, at: datetime) -> bool:
    """Whether the hour of `at` is one of the quiet ones."""
    return week.in_flight[hour_of_week(at)] <= week.quiet_in_flight


def test_nothing_observed_means_nothing_is_known() -> None:
    week = learnt({}, 0)
    assert (week.observed_hours, week.quiet_in_flight, week.limit) == (0, 0.0, 0)
    assert is_quiet(week, datetime(2026, 11, 3, 12, tzinfo=UTC))


def test_nights_and_weekends_are_told_from_office_hours() -> None:
    week = learnt(office_hours(4), 4 * 168)
    assert not is_quiet(week, datetime(2026, 12, 1, 11, tzinfo=UTC)), "a Tuesday morning"
    assert is_quiet(week, datetime(2026, 12, 6, 4, tzinfo=UTC)), "a Sunday night"
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
    assert not is_quiet(rome, (noon_utc + timedelta(hours=5)).astimezone(ZoneInfo("Europe/Rome")))
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


class Scene:
    """A gate whose world is told what to be."""

    def __init__(self, limit: int = 2, calm_s: float = 10) -> None:
        self.load = LiveLoad(1, 0, 0)
        self.now_s = 0.0
        self.broken = False
        self.gate = OffPeakGate(self._look, Quiet(limit, calm_s), clock=lambda: self.now_s)

    def _look(self) -> LiveLoad:
        if self.broken:
            raise PermissionError("no")
        return self.load

    def after(self, seconds: float, in_flight: int, silent: int = 0) -> bool:
        self.now_s += seconds
        self.load = LiveLoad(1, in_flight, silent)
        self.gate.step()
        return self.gate.open


async def test_it_closes_at_the_first_sight_of_load_and_opens_after_calm() -> None:
    scene = Scene()
    scene.gate.step(at_once=True)
    assert scene.gate.open, "quiet right now: nothing to wait for at the start"
    assert scene.after(0.2, 2), "the limit itself is quiet"
    assert not scene.after(0.2, 3)
    assert not scene.after(0.2, 0)
    assert not scene.after(9.9, 1)
    assert not scene.after(0.05, 5), "calm is counted from the last load on"
    assert not scene.after(0.2, 0)
    assert not scene.after(9.9, 0)
    assert scene.after(0.1, 0)


async def test_a_silent_worker_or_an_unreadable_folder_counts_as_load() -> None:
    scene = Scene(calm_s=0)
    assert scene.after(0, 0)
    assert not scene.after(1, 0, silent=1)
    assert scene.after(1, 0)
    scene.broken = True
    assert not scene.after(1, 0)


async def test_who_waits_is_let_through_when_it_opens_and_may_give_up() -> None:
    scene = Scene(calm_s=0)
    scene.after(0, 9)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(scene.gate.may_go_on()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        assert [w.done() for w in waiting] == [True, False, False]
        scene.after(1, 0)
    assert all(w.done() for w in waiting)


async def test_a_real_workers_requests_close_and_open_it(tmp_path: Path) -> None:
    worker = LoadReporter(tmp_path, every_s=0.01)
    worker.start()
    gate = OffPeakGate(lambda: live_load(tmp_path), Quiet(1, 0), look_every_s=0.01)
    try:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(gate.watch())
            await asyncio.wait_for(gate.may_go_on(), 60)
            for _ in range(2):
                worker.began()
            async with asyncio.timeout(60):
                while gate.open:
                    await asyncio.sleep(0.005)
            worker.ended()
            await asyncio.wait_for(gate.may_go_on(), 60)
            watching.cancel()
    finally:
        await asyncio.to_thread(worker.stop)
    assert live_load(tmp_path) == LiveLoad(0, 0, 0)


def test_a_rise_is_seen_within_a_second() -> None:
    """At worst one interval of each of the two, with as much again for scheduling."""
    assert 2 * (load_report._EVERY_S + off_peak._LOOK_S) < 1


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


T = 500_000 * HOUR_S


@pytest.mark.parametrize(("bounds", "limit"), [({}, 18), ({"min_in_flight": 40}, 40)])
def test_the_limit_is_learnt_from_the_log_and_bounded(
    store: Store, bounds: dict[str, Any], limit: int
) -> None:
    # Twelve in flight all day long, for three days; the first hour on record is not whole.
    for hour in range(72):
        at_s = T + hour * HOUR_S + 600
        record = request_record(hour, started_at_s=at_s, total_ms=12 * HOUR_S * 1000.0)
        store.decisions.requests.record(record).result(30)
    quiet = Quiet(2, 0)
    week = UsualTraffic(store, quiet, UTC, **bounds).learn(T + 72 * HOUR_S + 1)
    assert week.observed_hours == 71
    assert week.quiet_in_flight == pytest.approx(12, rel=0.1)
    assert quiet.limit == limit


def test_without_a_log_the_floor_holds(store: Store) -> None:
    quiet = Quiet(0, 0)
    week = UsualTraffic(store, quiet, UTC).learn(T)
    assert (week.observed_hours, quiet.limit) == (0, 2)
