"""When the nightly job is due: windows that a cron expression opens, or the hour that is usually quietest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from cronsim import CronSim

_REPEATED_S = 2 * 3600.0
WINDOW_S = 6 * 3600.0
"""How long after its time a run may begin or go on; then the next is waited for."""


@dataclass(frozen=True, slots=True)
class Window:
    """When a run may begin or go on. Seconds since the epoch."""

    begins_s: float
    ends_s: float


class Schedule:
    """Windows, one after the other. They never overlap: a new one ends the one before."""

    def __init__(
        self,
        cron: str | None,
        zone: tzinfo,
        window_s: float,
        quietest_hour: Callable[[int], int] = lambda weekday: 0,
    ) -> None:
        """`cron`: five fields, checked by the settings; None opens a window a day, at `quietest_hour(weekday)`.

        Clock changes are the library's matter, which does as Debian's cron: what falls into a skipped hour comes right
        after it, what falls into a repeated one comes once.
        """
        self._cron = cron
        self._zone = zone
        self._window_s = window_s
        self._quietest_hour = quietest_hour

    def window(self, now_s: float) -> Window | None:
        """The window that is open at `now_s`; None between windows."""
        begins_s = self._latest(now_s)
        if begins_s is None or now_s >= begins_s + self._window_s:
            return None
        return Window(begins_s, min(begins_s + self._window_s, self.next_s(now_s) or float("inf")))

    def next_s(self, now_s: float) -> float | None:
        """When the next window opens, in seconds since the epoch; None if never."""
        now = datetime.fromtimestamp(now_s, self._zone)
        if self._cron is not None:
            ticks = (tick.timestamp() for tick in CronSim(self._cron, now))
            # In a repeated hour the library may look back: see _latest.
            return next((tick for tick in ticks if tick > now_s), None)
        return min(tick for days in (0, 1, 2) if (tick := self._quietest(now, days)) > now_s)

    def _latest(self, now_s: float) -> float | None:
        now = datetime.fromtimestamp(now_s, self._zone)
        if self._cron is not None:
            # The library counts in local time: in a repeated hour, what lies just before may read as later.
            later = datetime.fromtimestamp(now_s + _REPEATED_S, UTC).astimezone(self._zone)
            ticks = (tick.timestamp() for tick in CronSim(self._cron, later, reverse=True))
            return next((tick for tick in ticks if tick <= now_s), None)
        return max(tick for days in (-2, -1, 0) if (tick := self._quietest(now, days)) <= now_s)

    def _quietest(self, now: datetime, days: int) -> float:
        day = now.date() + timedelta(days=days)
        hour = self._quietest_hour(day.weekday())
        return datetime(day.year, day.month, day.day, hour, tzinfo=self._zone).timestamp()
