"""When a cron expression comes, in a time zone; checked expressions only (understudy.settings.cron).

Clock changes are handled as Debian's cron does: what falls into a skipped hour comes right after it, what falls into a
repeated one comes once.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from cronsim import CronSim

_REPEATED_S = 2 * 3600.0


def next_tick(cron: str, zone: tzinfo, now_s: float) -> float | None:
    """The first time after `now_s`, in seconds since the epoch; None if it never comes again."""
    ticks = (tick.timestamp() for tick in CronSim(cron, datetime.fromtimestamp(now_s, zone)))
    # In a repeated hour the library may look back: see latest_tick.
    return next((tick for tick in ticks if tick > now_s), None)


def latest_tick(cron: str, zone: tzinfo, now_s: float) -> float | None:
    """The last time until `now_s`, in seconds since the epoch; None if it never came."""
    # The library counts in local time: in a repeated hour, what lies just before may read as later.
    later = datetime.fromtimestamp(now_s + _REPEATED_S, UTC).astimezone(zone)
    ticks = (tick.timestamp() for tick in CronSim(cron, later, reverse=True))
    return next((tick for tick in ticks if tick <= now_s), None)
