"""What a usual week looks like, hour by hour, and from how many requests in flight on it is not quiet any more.

The load of an hour is the mean number of requests in flight: their summed durations over its length (Little's law).
EchoLM (§4.3) runs replay "when the load is low"; how low is not said there, and this is our answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

import numpy as np
import numpy.typing as npt

HOURS = 168
_HOUR_S = 3600
_PRIOR_WEEKS = 1.0
"""How many observed weeks the coarser mean is worth, where an hour of the week was seen only a few times."""
_WINSORISED = 0.98
"""Hours above this quantile of all observed ones count as if they were at it: one outage or one batch teaches no habit."""
_SURELY = 0.95
"""A quiet hour's own ups and downs stay within the limit with this probability."""


@dataclass(frozen=True, slots=True)
class UsualWeek:
    """What is usual, in local time: index 0 is Monday from 00:00 to 01:00."""

    in_flight: tuple[float, ...]
    """Expected requests in flight, shape (168,)."""
    observed_hours: int
    """Hours it was learnt from; without any, nothing is known and every hour is expected to be empty."""
    quiet_in_flight: float
    """The load up to which an hour counts as quiet."""
    limit: int
    """Requests in flight that a quiet hour hardly ever exceeds."""

    def quiet(self, at: datetime) -> bool:
        """Whether the hour of `at` is usually quiet. `at` is in the week's own time zone."""
        return self.in_flight[hour_of_week(at)] <= self.quiet_in_flight

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
