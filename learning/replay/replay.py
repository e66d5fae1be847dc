"""Replay as a whole: plan, run, go on after a kill, take back. One at a time, whichever process asks.

`plan` reads; `run` spends. A schedule, a command and the admin page all come through here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import structlog

from learning.replay.asking import MayGoOn, always
from learning.replay.candidates import Candidates
from learning.replay.plan import Candidate, Line, plan
from learning.replay.run import Progress, ReplayRunner
from store import Store
from store.examples.versions import Undone
from store.jobs.exclusive import NotAlone, alone
from store.jobs.replay_jobs import AnotherReplayRuns, NotThatRun
from store.jobs.replay_records import ReplayBudget, ReplayRun, RunState

log = structlog.get_logger(__name__)

_UNFINISHED: tuple[RunState, ...] = ("interrupted", "stopped", "failed", "running", "paused")
"""A run that goes on is told from one whose process was killed by its lock alone: see `take_up`."""
_INDEX_S = 60.0


class Replay:
    """Over an open store with an index, and engines."""

    def __init__(
        self,
        store: Store,
        candidates: Candidates,
        runner: ReplayRunner,
        lock_file: Path,
        *,
        thin_below: float,
        most_steps: int,
    ) -> None:
        """`lock_file`: the same for every process."""
        self.store = store
        self.jobs = store.jobs.replay
        self._candidates = candidates
        self._runner = runner
        self._lock_file = lock_file
        self._thin_below = thin_below
        self._most_steps = most_steps

    async def plan(self, budget: ReplayBudget, tenant: str = "") -> list[Line]:
        """What a run would do for a tenant, or for all, best first. Asks no engine and changes nothing."""
        return await asyncio.to_thread(self._plan, budget, tenant)

    def _plan(self, budget: ReplayBudget, tenant: str) -> list[Line]:
        found: list[Candidate] = []
        for each in [tenant] if tenant else sorted(self.store.examples.tenants()):
            self._wait_for_index(each)
            found += self._candidates.of(each)
        return plan(
            found,
            budget,
            thin_below=self._thin_below,
            most=self._most_steps,
        )

    def _wait_for_index(self, tenant: str) -> None:
        indexes, follower = self.store.indexes, self.store.follower
        assert indexes is not None and follower is not None
        # Looking for anything has the follower bring the tenant into memory.
        indexes.nearest(tenant, np.ones(indexes.dimensions, np.float32), 1)
        follower.wait_for(self.store.examples.last_seq(), _INDEX_S)

    async def run(
        self,
        budget: ReplayBudget,
        tenant: str = "",
        *,
        asked_by: str = "command",
        may_go_on: MayGoOn = always,
        progress: Callable[[Progress], Awaitable[None]] | None = None,
    ) -> ReplayRun:
        """Plan and run. Raises AnotherReplayRuns while any process runs one, and what the store raises."""
        with self._only_one():
            await asyncio.wrap_future(self.jobs.interrupt_dead())
            run_id = await asyncio.wrap_future(self.jobs.want(tenant, budget, asked_by=asked_by))
            return await self._planned_and_run(run_id, budget, tenant, may_go_on, progress)

    async def take_up(
        self,
        run_id: int,
        *,
        may_go_on: MayGoOn = always,
        progress: Callable[[Progress], Awaitable[None]] | None = None,
        budget: ReplayBudget | None = None,
    ) -> ReplayRun:
        """Run what somebody wanted, or go on with a run that ended before its plan did. `budget`: another one from now on.

        Raises AnotherReplayRuns, NotThatRun.
        """
        with self._only_one():
            await asyncio.wrap_future(self.jobs.interrupt_dead())
            run = await asyncio.to_thread(self.jobs.run, run_id)
            if run is None:
                raise NotThatRun(f"there is no run {run_id}; `understudy replay list` shows them")
            if budget is not None:
                await asyncio.wrap_future(self.jobs.widen(run_id, budget))
            return await self._planned_and_run(run_id, budget or run.budget, run.tenant, may_go_on, progress)

    def unfinished(self, tenant: str | None = None) -> ReplayRun | None:
        """The latest run that ended before its plan did, or still goes on. Blocks."""
        for run in self.jobs.runs(limit=20, tenant=tenant, states=_UNFINISHED):
            left = self.jobs.progress(run.id)
            if any(left.get(state) for state in ("planned", "asked", "paid")):
                return run
        return None

    def wanted(self) -> ReplayRun | None:
        """The oldest run that somebody asked for and nobody took up yet. Blocks."""
        waiting = self.jobs.runs(states=("wanted",))
        return waiting[-1] if waiting else None

    async def _planned_and_run(
        self,
        run_id: int,
        budget: ReplayBudget,
        tenant: str,
        may_go_on: MayGoOn,
        progress: Callable[[Progress], Awaitable[None]] | None,
    ) -> ReplayRun:
        if not await asyncio.to_thread(self.jobs.progress, run_id):
            lines = await self.plan(budget, tenant)
            await asyncio.wrap_future(self.jobs.plan(run_id, [line.step() for line in lines]))
        ended = await self._runner.run(run_id, may_go_on, progress)
        spent = await asyncio.to_thread(self.jobs.asks.spent, run_id)
        log.info(
            "replay_spent",
            run=run_id,
            usd=round(spent.usd, 6),
            unknown_usd=round(spent.unknown_usd, 6),
            tokens=spent.tokens,
            engines_s=round(spent.seconds, 1),
        )
        return ended

    @contextmanager
    def _only_one(self) -> Iterator[None]:
        try:
            with alone(self._lock_file):
                yield
        except NotAlone:
            raise AnotherReplayRuns("another process runs a replay on this data folder") from None


async def take_back_run(store: Store, run_id: int) -> Undone:
    """Undo all that a run did to the bank: old answers come back, examples that it wrote go.

    What a person changed since stays. Raises NotThatRun for a run that is not there or still goes on.
    """
    run = await asyncio.to_thread(store.jobs.replay.run, run_id)
    if run is None:
        raise NotThatRun(f"there is no run {run_id}; `understudy replay list` shows them")
    if run.state in ("running", "paused", "wanted"):
        raise NotThatRun(f"run {run_id} is {run.state}: stop it first")
    done = await asyncio.wrap_future(store.examples.versions.undo_run(run_id))
    await asyncio.wrap_future(
        store.jobs.replay.end(run_id, "undone", f"{done.left} changed since and left alone")
    )
    return done


async def take_back_example(store: Store, tenant: str, example_id: int) -> Undone:
    """Give an example the answer it had before its last replay."""
    return await asyncio.wrap_future(store.examples.versions.undo_example(tenant, example_id))
