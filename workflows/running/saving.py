"""Commits what happens to runs: for all of them together, in the order in which it happened.

What somebody waits for is committed at the end of the turn of the event loop, all else with it, or a moment later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import TypeVar

import structlog

from store.workflows.records import Claim, ClaimLost, RunChange
from store.workflows.runs import WorkflowRuns
from workflows.running.live import LiveRun

log = structlog.get_logger(__name__)

T = TypeVar("T")

_AGAIN_S = 1.0
_GROUPED_S = 0.05
"""What nobody waits for is committed together so long: several steps of a chain whose engine is fast."""
Written = Sequence[tuple[LiveRun, RunChange]]


def done(future: Future[T]) -> Awaitable[T]:
    """What comes of a write. One that is done already costs no turn of the loop, as in a simulation."""
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
        spawn: Callable[[Coroutine[None, None, None], str], object],
        *,
        kept: Callable[[LiveRun, RunChange, bool], None],
        lost: Callable[[LiveRun], None],
        failed: Callable[[], object] = lambda: None,
    ) -> None:
        self._store = store
        self._claim = claim
        self._now = now
        self._spawn = spawn
        self._kept = kept
        self._lost = lost
        self._failed = failed
        self._dirty: dict[str, LiveRun] = {}
        self._flushing: asyncio.Future[None] | None = None
        self._due: asyncio.TimerHandle | asyncio.Handle | None = None
        self._last: asyncio.Future[None] | None = None

    def note(self, run: LiveRun, *, soon: bool = True) -> None:
        """Something of the run is to be committed; `soon`: at the end of this turn."""
        self._dirty[run.id] = run
        loop = asyncio.get_running_loop()
        if self._flushing is None:
            self._flushing = loop.create_future()
            self._due = loop.call_later(_GROUPED_S, self._flush)
        if soon:
            self._flush_soon()

    async def all_kept(self) -> None:
        """Return when everything noted so far is committed, or could not be: then the run goes on without."""
        flushing = self._flushing or self._last
        self._flush_soon()
        if flushing is not None:
            await asyncio.shield(flushing)

    def _flush_soon(self) -> None:
        if isinstance(self._due, asyncio.TimerHandle):
            self._due.cancel()
            self._due = asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._due = None
        flushing, self._flushing = self._flushing, None
        assert flushing is not None
        self._last = flushing
        runs, self._dirty = [run for run in self._dirty.values() if not run.lost], {}
        taken = [(run, run.taken(self._now())) for run in runs]
        written = [(run, change) for run, change in taken if change is not None]
        if not written:
            _resolve(flushing)
            return
        try:
            future = self._store.save(self._claim, [change for _, change in written])
        except Exception as error:
            future = Future()
            future.set_exception(error)
        if future.done():
            self._settle(written, future.exception(), flushing)
        else:
            loop = asyncio.get_running_loop()
            future.add_done_callback(
                lambda done: loop.call_soon_threadsafe(self._settle, written, done.exception(), flushing)
            )

    def _settle(self, written: Written, error: BaseException | None, flushing: asyncio.Future[None]) -> None:
        if isinstance(error, ClaimLost) and len(written) > 1:
            self._spawn(self._each(written, flushing), "save runs one by one")
            return
        self._told(written, error)
        _resolve(flushing)

    async def _each(self, written: Written, flushing: asyncio.Future[None]) -> None:
        try:
            for run, change in written:
                error: BaseException | None = None
                try:
                    await done(self._store.save(self._claim, [change]))
                except Exception as raised:
                    error = raised
                self._told([(run, change)], error)
        finally:
            _resolve(flushing)

    def _told(self, written: Written, error: BaseException | None) -> None:
        """Act on what came of a write."""
        if error is not None and not isinstance(error, ClaimLost):
            self._failed()
            log.error("runs_not_saved", runs=len(written), error=type(error).__name__)
            asyncio.get_running_loop().call_later(_AGAIN_S, self._again, [run for run, _ in written])
        for run, change in written:
            if isinstance(error, ClaimLost):
                self._lost(run)
                continue
            if error is not None:
                run.give_back(change)
            self._kept(run, change, error is None)

    def _again(self, runs: Sequence[LiveRun]) -> None:
        for run in runs:
            if run.dirty and not run.lost:
                self.note(run)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
