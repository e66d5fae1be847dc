"""The replayer: one process beside the workers that takes up replays when they are due, and lets traffic go first.

Due is what a person asked for, what was interrupted, and once per window of the schedule a run of its own. It may die at any
moment: the run it had is found interrupted, and gone on with.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from learning.replay.asking import MayGoOn
from learning.replay.schedule import Schedule, Window
from store.jobs.exclusive import NotAlone, alone
from store.jobs.replay_jobs import AnotherReplayRuns, ReplayJobs
from store.jobs.replay_records import ReplayBudget, ReplayRun

log = structlog.get_logger(__name__)

_LOOK_S = 1.0
_SCHEDULE, _ADMIN = "schedule", "admin"
_UNFINISHED = ("wanted", "interrupted")
_LATEST = 20
"""Runs that are looked through for what is due."""

CarryOut = Callable[[int, MayGoOn], Awaitable[ReplayRun]]
"""(run id, gate): plan the run if it has no plan yet, carry it out as far as it goes. Cancelling interrupts it.

Raises AnotherReplayRuns while any process runs one."""


@dataclass(frozen=True, slots=True)
class Due:
    """What to do now."""

    run_id: int | None
    """None: a run of the schedule's own, which does not exist yet."""
    until_s: float | None
    """When it has to stop (seconds since the epoch); None for what a person asked for."""


def due(runs: list[ReplayRun], window: Window | None) -> Due | None:
    """What is due, of the latest runs, newest first. A run that a command began is its person's to go on with."""
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
        carry_out: CarryOut,
        may_go_on: MayGoOn,
        schedule: Schedule,
        budget: ReplayBudget,
        lock_file: Path,
        *,
        clock: Callable[[], float] = time.time,
        look_every_s: float = _LOOK_S,
    ) -> None:
        """`budget`: of each run of the schedule. `lock_file`: of replayers; who runs a replay has a lock of its own."""
        self._jobs = jobs
        self._carry_out = carry_out
        self._may_go_on = may_go_on
        self._schedule = schedule
        self._budget = budget
        self._lock_file = lock_file
        self._clock = clock
        self._look_every_s = look_every_s

    async def run(self) -> None:
        """Look for what is due, do it, look again."""
        while True:
            try:
                await self.step()
            except Exception as error:
                # One run's trouble must not keep the next night's from being done.
                log.error("replay_failed", error=error)
            await asyncio.sleep(self._look_every_s)

    async def step(self) -> ReplayRun | None:
        """Carry out what is due, if anything is; gives it as it ended. Raises what the store and the work raise."""
        if await asyncio.to_thread(self._look) is None:
            return None
        # A night's own run begins only once it is quiet: a window that never is leaves no empty run behind.
        await self._may_go_on()
        try:
            with alone(self._lock_file):
                return await self._take_up()
        except (NotAlone, AnotherReplayRuns):
            # It stays due.
            return None

    async def _take_up(self) -> ReplayRun | None:
        # Another process may have done meanwhile what was due.
        found = await asyncio.to_thread(self._look)
        if found is None:
            return None
        run_id = found.run_id
        if run_id is None:
            run_id = await asyncio.wrap_future(self._jobs.want("", self._budget, asked_by=_SCHEDULE))
        left_s = None if found.until_s is None else max(0.0, found.until_s - self._clock())
        try:
            async with asyncio.timeout(left_s) as limit:
                return await self._carry_out(run_id, self._may_go_on)
        except AnotherReplayRuns:
            raise
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                log.info("replay_window_over", run=run_id)
                return await asyncio.to_thread(self._jobs.run, run_id)
            # Else it would be due again at once, and for ever.
            await asyncio.wrap_future(self._jobs.end(run_id, "failed", type(error).__name__))
            raise

    def _look(self) -> Due | None:
        # A run whose process was killed still seems to go on. Whether it does is found out when it is taken up.
        latest = [
            replace(run, state="interrupted") if run.state in ("running", "paused") else run
            for run in self._jobs.runs(limit=_LATEST)
        ]
        return due(latest, self._schedule.window(self._clock()))
