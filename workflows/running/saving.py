"""Commits what happens to runs: for all of them together, in the order in which it happened.

What somebody waits for is committed at the end of the turn of the event loop, all else with it, or a moment later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

import structlog

from store.workflows.records import Claim, RunChange
from store.workflows.runs import WorkflowRuns
from workflows.running.live import LiveRun

log = structlog.get_logger(__name__)

T = TypeVar("T")

_AGAIN_S = 1.0
_GROUPED_S = 0.05
"""Seconds for which what nobody waits for is committed together: several steps of a chain whose engine is fast."""


def done(future: Future[T]) -> Awaitable[T]:
    """Return the result of a write. One that is done already costs no turn of the loop, as in a simulation."""
    return _result(future) if future.done() else asyncio.wrap_future(future)


async def _result(future: Future[T]) -> T:
    return future.result()


class Saving:
    """`kept` is told of each change that is committed, or could not be (False) and will be tried again; `lost` of a run that
    another worker carries out."""

    def __init__(
        self,
        store: WorkflowRuns,
        claim: Claim,
        now: Callable[[], float],
        *,
        kept: Callable[[LiveRun, RunChange, bool], None],
        lost: Callable[[LiveRun], None],
        failed: Callable[[], object] = lambda: None,
    ) -> None:
        self._store = store
        self._claim = claim
        self._now = now
        self._kept = kept
        self._lost = lost
        self._failed = failed
        self._noted: dict[str, LiveRun] = {}
        self._due: asyncio.TimerHandle | None = None
        """When what nobody waits for is written."""
        self._next: asyncio.Task[None] | None = None
        """Writes what is noted, at the end of this turn."""
        self._writing: set[asyncio.Task[None]] = set()

    def note(self, run: LiveRun, *, soon: bool = True) -> None:
        """Something of the run is to be committed; `soon`: at the end of this turn."""
        self._noted[run.id] = run
        if soon:
            self._begin()
        elif self._due is None and self._next is None:
            self._due = asyncio.get_running_loop().call_later(_GROUPED_S, self._begin)

    async def all_kept(self) -> None:
        """Return when everything noted so far is committed, or could not be: then the run goes on without."""
        if self._noted:
            self._begin()
        if self._writing:
            await asyncio.wait(set(self._writing))

    def _begin(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._write(), name="save runs")
            self._writing.add(self._next)
            self._next.add_done_callback(self._writing.discard)

    async def _write(self) -> None:
        runs, self._noted, self._next = self._noted, {}, None
        taken = [(run, run.taken(self._now())) for run in runs.values() if not run.lost]
        written = [(run, change) for run, change in taken if change is not None]
        if not written:
            return
        lost: frozenset[str] = frozenset()
        committed = False
        try:
            lost = await done(self._store.save(self._claim, [change for _, change in written]))
            committed = True
        except Exception as error:
            self._failed()
            log.error("runs_not_saved", runs=len(written), error=type(error).__name__)
            asyncio.get_running_loop().call_later(_AGAIN_S, self._again, [run for run, _ in written])
        for run, change in written:
            if run.id in lost:
                self._lost(run)
                continue
            if not committed:
                run.give_back(change)
            self._kept(run, change, committed)

    def _again(self, runs: Sequence[LiveRun]) -> None:
        for run in runs:
            if run.dirty and not run.lost:
                self.note(run)
