"""Holds on to the steps of this worker, and carries on what is due: steps whose claim is over by the store's clock.

A worker that is killed renews nothing, so that its steps are due when their claim ends. A step that had ended is not asked
again. One that was being asked is asked once more, which shows in its `attempts`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

import structlog

from store.errors import StoreError
from store.workflows.records import Claim, Failure, Run, RunChange, RunEnd, VariableEnd, WholeRun
from store.workflows.runs import WorkflowRuns
from workflows.names import VariableId
from workflows.running.cell import Cell
from workflows.running.door import Door
from workflows.running.knobs import RunKnobs
from workflows.running.live import LiveRun
from workflows.running.restoring import outside_of, restored
from workflows.running.saving import done

log = structlog.get_logger(__name__)

_PER_CLAIM = 4
"""How often a claim is renewed while it lasts, so that one late write loses nothing."""


class Runs(Protocol):
    """What carries them out: workflows.running.runs."""

    claim: Claim
    store: WorkflowRuns
    knobs: RunKnobs
    now: Callable[[], float]

    @property
    def door(self) -> Door: ...

    @property
    def live(self) -> Mapping[str, LiveRun]: ...

    async def find(self, tenant: str, id: str, end_user: str) -> Cell | None: ...

    def cells_of(self, row: Run) -> Callable[[VariableId, str], Cell]: ...

    def adopt(self, run: LiveRun) -> None: ...

    def cancel(self, run: LiveRun) -> None: ...


class Claims:
    """`keep` steps until it is cancelled."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    async def keep(self) -> None:
        """Renew, and claim what is due, again and again."""
        while True:
            try:
                if self._runs.live:
                    await done(self._runs.store.renew(self._runs.claim))
                await self.take()
            except StoreError as error:
                log.warning("steps_not_claimed", error=error)
            except Exception as error:
                # Without claims other workers would take all of its steps over.
                log.error("steps_not_claimed", error=type(error).__name__)
            await asyncio.sleep(self._runs.claim.for_s / _PER_CLAIM)

    async def take(self) -> None:
        """Claim what is due, and carry it on."""
        runs = self._runs
        for id in await done(await runs.store.reads(runs.store.claim, runs.claim)):
            whole = await runs.store.reads(runs.store.run, id)
            if whole is None or id in runs.live:
                continue
            log.info("run_adopted", run=id, steps=len(whole.steps))
            try:
                await self._carry_on(whole)
            except StoreError:
                raise
            except Exception as error:
                # The others are carried on all the same; this one is due again when its claim is over.
                log.error("run_not_carried_on", run=id, error=type(error).__name__)

    async def _carry_on(self, whole: WholeRun) -> None:
        runs = self._runs
        if whole.run.no_store:
            await done(runs.store.save(runs.claim, [_lost(whole, runs.now())]))
            return
        outside = await outside_of(whole, runs.find)
        run = restored(whole, runs.knobs.max_items, outside, runs.door.caller, runs.cells_of(whole.run))
        runs.adopt(run)
        if whole.run.cancel_asked:
            runs.cancel(run)


def _lost(whole: WholeRun, now_s: float) -> RunChange:
    """The end of a run whose values were in the memory of a worker that ended."""
    failure = Failure(
        "restarted", "The worker that held this run's values in memory (no-store) ended; ask again."
    )
    steps = {
        step.plan.id: replace(step.progress, state="failed", ended_at_s=now_s, failure=failure)
        for step in whole.steps
        if step.progress.state not in ("done", "failed", "cancelled", "skipped")
    }
    variables = [
        VariableEnd(v.id, "failed", failure=replace(failure, chain=(v.name,)))
        for v in whole.variables
        if v.state in ("pending", "streaming")
    ]
    return RunChange(whole.run.id, now_s, steps, (), variables, RunEnd("failed", now_s, failure))
