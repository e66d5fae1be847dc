"""Commits what happens to runs: once per turn of the event loop for all of them, in the order in which it happened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from gateway.runs.live import LiveRun
from store.workflows.records import (
    LeaseLost,
    Limits,
    NewStep,
    NewVariable,
    NoSuchRun,
    RunChange,
    TooManyBytes,
)
from store.workflows.runs import WorkflowRuns

log = structlog.get_logger(__name__)

T = TypeVar("T")

_AGAIN_S = 1.0


def done(future: Future[T]) -> Awaitable[T]:
    """What comes of a write. One that is done already costs no turn of the loop, as in memory."""
    return _result(future) if future.done() else asyncio.wrap_future(future)


async def _result(future: Future[T]) -> T:
    return future.result()


@dataclass(frozen=True, slots=True)
class Grown:
    """New steps of a run that are being written."""

    steps: list[NewStep]
    variables: list[NewVariable]
    future: Future[None]


class Saving:
    """`kept` is told of each change that is committed, or could not be (False) and will be tried again; `lost` of a run that
    another process carries out; `refused` of one whose new steps take more room than its tenant has."""

    def __init__(
        self,
        store: WorkflowRuns,
        owner: str,
        now: Callable[[], float],
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
        *,
        kept: Callable[[LiveRun, RunChange, bool], None],
        lost: Callable[[LiveRun], None],
        refused: Callable[[LiveRun, Exception], None],
        limits: Limits,
        failed: Callable[[], object] = lambda: None,
    ) -> None:
        self._store = store
        self._owner = owner
        self._now = now
        self._spawn = spawn
        self._kept = kept
        self._lost = lost
        self._refused = refused
        self._limits = limits
        self._failed = failed
        self._dirty: dict[str, LiveRun] = {}
        self._flushing: asyncio.Future[None] | None = None
        self._last: asyncio.Future[None] | None = None

    def note(self, run: LiveRun) -> None:
        """Something of the run is to be committed, at the end of this turn."""
        self._dirty[run.id] = run
        if self._flushing is None:
            loop = asyncio.get_running_loop()
            self._flushing = loop.create_future()
            loop.call_soon(self._flush)

    async def all_kept(self) -> None:
        """Return when everything noted so far is committed, or could not be: then the run goes on without."""
        flushing = self._flushing or self._last
        if flushing is not None:
            await asyncio.shield(flushing)

    def _flush(self) -> None:
        flushing, self._flushing = self._flushing, None
        assert flushing is not None
        runs, self._dirty = [run for run in self._dirty.values() if run.dirty and not run.lost], {}
        self._last = flushing
        if not runs:
            _resolve(flushing)
            return
        growing = {run.id: grown for run in runs if (grown := self._grow(run)) is not None}
        changes = [run.taken(self._now()) for run in runs]
        try:
            future = self._store.save(self._owner, changes)
        except Exception as error:
            for run in runs:
                if run.id in growing:
                    run.give_back_grown(growing[run.id].steps, growing[run.id].variables)
            self._not_kept(runs, changes, error)
            _resolve(flushing)
            return
        if future.done():
            self._settle(runs, changes, growing, future, flushing)
        else:
            loop = asyncio.get_running_loop()
            future.add_done_callback(
                lambda _: loop.call_soon_threadsafe(self._settle, runs, changes, growing, future, flushing)
            )

    def _grow(self, run: LiveRun) -> Grown | None:
        """Have new steps written before what happened to them: the store keeps writes in order."""
        steps, variables = run.grown()
        if not steps:
            return None
        try:
            future = self._store.extend(
                run.tenant,
                run.id,
                steps,
                variables,
                now_s=self._now(),
                limits=self._limits,
                owner=self._owner,
            )
        except Exception as error:
            future = Future()
            future.set_exception(error)
        return Grown(steps, variables, future)

    def _settle(
        self,
        runs: Sequence[LiveRun],
        changes: Sequence[RunChange],
        growing: Mapping[str, Grown],
        future: Future[None],
        flushing: asyncio.Future[None],
    ) -> None:
        error = future.exception()
        # New steps were written, or not, before the change was.
        stunted = {run.id: e for run in runs if (e := self._grown_error(run, growing)) is not None}
        if stunted:
            self._not_grown(runs, changes, stunted)
            left = [pair for pair in zip(runs, changes, strict=True) if pair[0].id not in stunted]
            runs, changes = [run for run, _ in left], [change for _, change in left]
        if error is None:
            for run, change in zip(runs, changes, strict=True):
                self._kept(run, change, True)
        elif isinstance(error, LeaseLost):
            if len(runs) == 1:
                self._lost(runs[0])
            else:
                self._spawn(self._each(runs, changes, flushing), "save runs one by one")
                return
        else:
            self._not_kept(runs, changes, error)
        _resolve(flushing)

    def _grown_error(self, run: LiveRun, growing: Mapping[str, Grown]) -> BaseException | None:
        grown = growing.get(run.id)
        if grown is None or (error := grown.future.exception()) is None:
            return None
        if isinstance(error, TooManyBytes):
            run.forget([step.id for step in grown.steps])
        else:
            run.give_back_grown(grown.steps, grown.variables)
        return error

    def _not_grown(
        self, runs: Sequence[LiveRun], changes: Sequence[RunChange], stunted: Mapping[str, BaseException]
    ) -> None:
        """New steps were not written, and so nothing of what happened to them was."""
        for run, change in zip(runs, changes, strict=True):
            error = stunted.get(run.id)
            if isinstance(error, NoSuchRun):
                self._lost(run)
            elif error is not None:
                if isinstance(error, TooManyBytes):
                    self._refused(run, error)
                self._not_kept([run], [change], error)

    async def _each(
        self, runs: Sequence[LiveRun], changes: Sequence[RunChange], flushing: asyncio.Future[None]
    ) -> None:
        try:
            for run, change in zip(runs, changes, strict=True):
                try:
                    await done(self._store.save(self._owner, [change]))
                except LeaseLost:
                    self._lost(run)
                except Exception as error:
                    self._not_kept([run], [change], error)
                else:
                    self._kept(run, change, True)
        finally:
            _resolve(flushing)

    def _not_kept(self, runs: Sequence[LiveRun], changes: Sequence[RunChange], error: BaseException) -> None:
        if not runs:
            return
        self._failed()
        log.error("runs_not_saved", runs=len(runs), error=type(error).__name__)
        for run, change in zip(runs, changes, strict=True):
            run.give_back(change)
            self._kept(run, change, False)
        asyncio.get_running_loop().call_later(_AGAIN_S, self._again, runs)

    def _again(self, runs: Sequence[LiveRun]) -> None:
        for run in runs:
            if run.dirty and not run.lost:
                self.note(run)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
