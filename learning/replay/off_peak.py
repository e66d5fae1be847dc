"""Tells when traffic is low: learns the load of a usual week, and opens a gate while the load is below its quiet hours'.

The load of an hour is the mean number of requests in flight: their summed durations over its length (Little's law).
EchoLM (arXiv 2501.12689, §4.3) runs replay "when the load is low"; how low is not said there, and this is our answer.
Workers write how many requests they have in flight four times a second, and the gate looks five times a second.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo

import numpy as np
import numpy.typing as npt
import structlog

from store import Store
from store.errors import StoreError
from store.jobs.live_load import LiveLoad

log = structlog.get_logger(__name__)

HOURS = 168
_HOUR_S = 3600
_WEEK_S = 7 * 24 * _HOUR_S
_LEARN_AGAIN_S = 3600.0
_PRIOR_WEEKS = 1.0
"""The weight of the coarser mean in observed weeks, if an hour of the week was seen only a few times."""
_WINSORISED = 0.98
"""Hours above this quantile of all observed ones count as if they were at it: one outage or one batch teaches no habit."""
_SURELY = 0.95
"""A quiet hour's own ups and downs stay within the limit with this probability."""
LEAST_IN_FLIGHT = 2
"""Requests in flight that never pause replay, whatever was learnt of usual traffic."""
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class UsualWeek:
    """The usual load, in local time: index 0 is Monday from 00:00 to 01:00."""

    in_flight: tuple[float, ...]
    """Expected requests in flight, shape (168,)."""
    observed_hours: int
    """Hours it was learnt from; without any, nothing is known and every hour is expected to be empty."""
    quiet_in_flight: float
    """The load up to which an hour counts as quiet."""
    limit: int
    """Requests in flight that a quiet hour hardly ever exceeds."""

    def quietest_hour(self, weekday: int) -> int:
        """The hour of day, 0 to 23, that is usually quietest on a day of the week (0 is Monday); the earliest of equals."""
        day = self.in_flight[weekday * 24 : weekday * 24 + 24]
        return day.index(min(day))


def hour_of_week(at: datetime) -> int:
    """0 to 167."""
    return at.weekday() * 24 + at.hour


def usual_week(
    busy_s: Mapping[int, float], *, first_hour: int, end_hour: int, zone: tzinfo, quiet_share: float
) -> UsualWeek:
    """Learn from the hours [first_hour, end_hour) since the epoch; `busy_s` has those that were not empty.

    An hour of the week is estimated by its observations' mean, shrunk towards its hour of day, and that towards the mean
    of all, each by one pseudo-observation: after one day the hours of day are told apart, after some weeks the days, too.
    Hours in zones that differ from UTC by a half hour are taken for the local hour they begin in.

    The limit is a quantile of the Poisson distribution around the quiet load: the number in flight is Poisson when
    arrivals are, whatever the durations (the M/G/infinity queue). Bursts make it too low, never too high: replay
    then pauses more often than it has to.
    """
    observed = max(0, end_hour - first_hour)
    if not observed:
        return UsualWeek((0.0,) * HOURS, 0, 0.0, 0)
    loads = np.array([busy_s.get(hour, 0.0) / _HOUR_S for hour in range(first_hour, end_hour)])
    loads = np.minimum(loads, np.quantile(loads, _WINSORISED, method="higher"))
    places = np.array(
        [
            hour_of_week(datetime.fromtimestamp(h * _HOUR_S, UTC).astimezone(zone))
            for h in range(first_hour, end_hour)
        ]
    )
    week = _shrunk_week(loads, places)
    quiet = float(np.quantile(week, quiet_share, method="higher"))
    return UsualWeek(tuple(float(x) for x in week), observed, quiet, poisson_quantile(quiet, _SURELY))


def _shrunk_week(loads: npt.NDArray[np.float64], places: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    sums = np.bincount(places, loads, HOURS)
    counts = np.bincount(places, minlength=HOURS)
    by_hour_of_day = (sums.reshape(7, 24).sum(axis=0) + _PRIOR_WEEKS * loads.mean()) / (
        counts.reshape(7, 24).sum(axis=0) + _PRIOR_WEEKS
    )
    shrunk: npt.NDArray[np.float64] = (sums + _PRIOR_WEEKS * np.tile(by_hour_of_day, 7)) / (
        counts + _PRIOR_WEEKS
    )
    return shrunk


def poisson_quantile(mean: float, probability: float) -> int:
    """The least n with P(X <= n) >= `probability` for X ~ Poisson(`mean`).

    Means above 500, where exp(-mean) would vanish, are answered by the normal approximation, off by less than one in
    a hundred there.
    """
    if mean > 500:
        from statistics import NormalDist

        return math.ceil(mean + NormalDist().inv_cdf(probability) * math.sqrt(mean))
    term = total = math.exp(-mean)
    n = 0
    while total < probability:
        n += 1
        term *= mean / n
        total += term
        if term == 0.0 and n > mean:
            break
    return n


@dataclass(slots=True)
class Quiet:
    """Which load counts as low; may be changed while a gate is watching."""

    limit: int
    """Requests in flight up to which replay goes on."""
    calm_s: float
    """Seconds of low load before the gate opens again."""


class OffPeakGate:
    """`watch` is the task that keeps it up to date; `may_go_on` waits until it is open."""

    def __init__(
        self,
        look: Callable[[], LiveLoad],
        quiet: Quiet,
        *,
        look_every_s: float = _LOOK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`look` reads a few small files, or the database; `watch` calls it on a thread."""
        self._look = look
        self._quiet = quiet
        self._look_every_s = look_every_s
        self._clock = clock
        self._open = asyncio.Event()
        self._quiet_since: float | None = None

    @property
    def open(self) -> bool:
        """Tell if `may_go_on` would return at once."""
        return self._open.is_set()

    async def may_go_on(self) -> None:
        """Return when traffic is low. Cancelling is safe."""
        await self._open.wait()

    async def watch(self) -> None:
        """Look again and again until cancelled. Begins open if traffic is low right now."""
        first = True
        while True:
            self._take(await asyncio.to_thread(self._read), at_once=first)
            first = False
            await asyncio.sleep(self._look_every_s)

    def step(self, *, at_once: bool = False) -> None:
        """Look once. `at_once`: open without waiting for `calm_s`."""
        self._take(self._read(), at_once=at_once)

    def _read(self) -> LiveLoad:
        try:
            return self._look()
        except (OSError, StoreError) as error:
            # How busy it is is not known: it counts as busy.
            log.error("live_load_unreadable", error=error)
            return LiveLoad(0, 0, 1)

    def _take(self, load: LiveLoad, *, at_once: bool) -> None:
        now_s = self._clock()
        if load.silent or load.in_flight > self._quiet.limit:
            self._quiet_since = None
            if self._open.is_set():
                self._open.clear()
                log.info(
                    "off_peak_over",
                    in_flight=load.in_flight,
                    silent=load.silent,
                    limit=self._quiet.limit,
                )
            return
        if self._quiet_since is None:
            self._quiet_since = now_s
        if not self._open.is_set() and (at_once or now_s - self._quiet_since >= self._quiet.calm_s):
            self._open.set()
            log.info("off_peak", in_flight=load.in_flight, limit=self._quiet.limit)


@dataclass(slots=True)
class UsualTraffic:
    """Learns, again every hour, what a usual week looks like, and sets the limit of `quiet` by it."""

    store: Store
    quiet: Quiet
    zone: tzinfo
    weeks: int = 4
    """Weeks of requests it is learnt from."""
    quiet_share: float = 0.25
    """Share of a usual week's hours that counts as quiet."""
    min_in_flight: int = LEAST_IN_FLIGHT
    """The limit is never lower."""
    week: UsualWeek = field(default_factory=lambda: UsualWeek((0.0,) * HOURS, 0, 0.0, 0))

    async def keep_learning(self) -> None:
        """Never returns."""
        while True:
            try:
                await asyncio.to_thread(self.learn, time.time())
            except Exception as error:
                # The last week known, or the lowest limit, goes on being right enough.
                log.error("usual_week_unknown", error=error)
            await asyncio.sleep(_LEARN_AGAIN_S)

    def learn(self, now_s: float) -> UsualWeek:
        """Learn from the whole hours of the last weeks, the first one on record left out: it may have begun in its midst."""
        began_s = self.store.decisions.requests.first_request_s()
        since_s = max(now_s - self.weeks * _WEEK_S, now_s if began_s is None else began_s)
        first, end = math.ceil(since_s / _HOUR_S), int(now_s // _HOUR_S)
        hours = self.store.decisions.requests.hourly_load(since_s=first * _HOUR_S, until_s=end * _HOUR_S)
        self.week = usual_week(
            {hour.hour: hour.busy_s for hour in hours},
            first_hour=first,
            end_hour=end,
            zone=self.zone,
            quiet_share=self.quiet_share,
        )
        limit = max(self.min_in_flight, self.week.limit)
        self.quiet.limit = limit
        log.info(
            "usual_week",
            hours=self.week.observed_hours,
            quiet_in_flight=round(self.week.quiet_in_flight, 3),
            limit=limit,
        )
        return self.week
