"""Runs replay by itself, in a process of its own: once per window of a schedule, or when an operator asks, at low traffic.

A window opens when a cron expression says, or in the hour that is usually quietest. The process may die at any moment: the
run it had is found interrupted, and resumed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo

import structlog

from learning.alone import alone
from learning.replay.asking import MayGoOn
from learning.ticks import latest_tick, next_tick
from store.jobs.leases import LeaseOver, Leases, NotAlone
from store.jobs.replay_jobs import AnotherReplayRuns, ReplayJobs
from store.jobs.replay_records import ReplayBudget, ReplayRun

log = structlog.get_logger(__name__)

WINDOW_S = 6 * 3600.0
"""Seconds after its time within which a job may begin or go on; then the next is waited for."""

LEASE = "replayer"
"""The lease of the process that takes up what is due."""
_LOOK_S = 1.0
_SCHEDULE, _ADMIN = "schedule", "admin"
_UNFINISHED = ("wanted", "interrupted")
_LATEST = 20
"""Runs that are looked through for what is due."""

TakeUp = Callable[[int, MayGoOn], Awaitable[ReplayRun]]
"""learning.replay.run.Replay.take_up. Cancelling interrupts the run."""


@dataclass(frozen=True, slots=True)
class Window:
    """When a run may begin or go on. Seconds since the epoch."""

    begins_s: float
    ends_s: float


class Schedule:
    """Opens windows, one after the other. They never overlap: a new one ends the one before."""

    def __init__(
        self,
        cron: str | None,
        zone: tzinfo,
        window_s: float,
        quietest_hour: Callable[[int], int] = lambda weekday: 0,
    ) -> None:
        """`cron`: five fields, checked by the settings; None opens a window a day, at `quietest_hour(weekday)`."""
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
        if self._cron is not None:
            return next_tick(self._cron, self._zone, now_s)
        now = datetime.fromtimestamp(now_s, self._zone)
        return min(tick for days in (0, 1, 2) if (tick := self._quietest(now, days)) > now_s)

    def _latest(self, now_s: float) -> float | None:
        if self._cron is not None:
            return latest_tick(self._cron, self._zone, now_s)
        now = datetime.fromtimestamp(now_s, self._zone)
        return max(tick for days in (-2, -1, 0) if (tick := self._quietest(now, days)) <= now_s)

    def _quietest(self, now: datetime, days: int) -> float:
        day = now.date() + timedelta(days=days)
        hour = self._quietest_hour(day.weekday())
        return datetime(day.year, day.month, day.day, hour, tzinfo=self._zone).timestamp()


@dataclass(frozen=True, slots=True)
class Due:
    """A run to carry out now."""

    run_id: int | None
    """None: a new run of the schedule."""
    until_s: float | None
    """When it has to stop (seconds since the epoch); None for what a person asked for."""


def due(runs: list[ReplayRun], window: Window | None) -> Due | None:
    """Choose what is due of the latest jobs, newest first. Jobs of a command are resumed by hand."""
    for run in reversed(runs):
        if run.asked_by == _ADMIN and run.state in _UNFINISHED:
            return Due(run.id, None)
    if window is None:
        return None
    own = [run for run in runs if run.asked_by == _SCHEDULE]
    for run in own:
        if run.state in _UNFINISHED:
            return Due(run.id, window.ends_s)
    if any(run.created_at_s >= window.begins_s for run in own):
        return None
    return Due(None, window.ends_s)


class Replayer:
    """Takes up one run at a time. `run` never returns; whatever it does is over when it is cancelled."""

    def __init__(
        self,
        jobs: ReplayJobs,
        take_up: TakeUp,
        may_go_on: MayGoOn,
        schedule: Schedule,
        budget: ReplayBudget,
        leases: Leases,
        *,
        clock: Callable[[], float] = time.time,
        look_every_s: float = _LOOK_S,
    ) -> None:
        """`budget`: of each run of the schedule. `leases`: each run has one of its own (Replay)."""
        self._jobs = jobs
        self._take_up = take_up
        self._may_go_on = may_go_on
        self._schedule = schedule
        self._budget = budget
        self._leases = leases
        self._clock = clock
        self._look_every_s = look_every_s

    async def run(self) -> None:
        """Look for what is due, do it, look again."""
        while True:
            try:
                await self.step()
            except Exception as error:
                # The next run must not fail because this one did.
                log.error("replay_failed", error=error)
            await asyncio.sleep(self._look_every_s)

    async def step(self) -> ReplayRun | None:
        """Carry out what is due, if anything is; gives it as it ended. Raises what the store and the work raise."""
        if await asyncio.to_thread(self._look) is None:
            return None
        # A scheduled run begins only once traffic is low: a window in which it never is leaves no empty run behind.
        await self._may_go_on()
        try:
            async with alone(self._leases, LEASE):
                return await self._take_up_due()
        except (NotAlone, AnotherReplayRuns):
            # It is taken up the next time.
            return None

    async def _take_up_due(self) -> ReplayRun | None:
        # Another process may have taken it up meanwhile.
        found = await asyncio.to_thread(self._look)
        if found is None:
            return None
        run_id = found.run_id
        if run_id is None:
            run_id = await asyncio.wrap_future(self._jobs.want("", self._budget, asked_by=_SCHEDULE))
        left_s = None if found.until_s is None else max(0.0, found.until_s - self._clock())
        try:
            async with asyncio.timeout(left_s) as limit:
                return await self._take_up(run_id, self._may_go_on)
        except (AnotherReplayRuns, LeaseOver):
            raise
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                log.info("replay_window_over", run=run_id)
                return await asyncio.to_thread(self._jobs.run, run_id)
            # Else it would be due again at once, and for ever.
            await asyncio.wrap_future(self._jobs.end(run_id, "failed", type(error).__name__))
            raise

    def _look(self) -> Due | None:
        # A run whose process was killed is still marked as running. Taking it up shows whether it is.
        latest = [
            replace(run, state="interrupted") if run.state in ("running", "paused") else run
            for run in self._jobs.runs(limit=_LATEST)
        ]
        return due(latest, self._schedule.window(self._clock()))
