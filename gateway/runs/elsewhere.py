"""Follows what other processes do to variables and runs: one look at the store however many wait."""

from __future__ import annotations

import asyncio
import weakref
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

import structlog

from gateway.runs.cell import CANCELLED, FAILED, SKIPPED, STREAMING, Cell
from gateway.runs.live import skipped, value_of, why
from store.errors import StoreError
from store.workflows.records import Change, Variable
from store.workflows.runs import WorkflowRuns

log = structlog.get_logger(__name__)


class Elsewhere:
    """`told` takes each change that is about a run: got, or to be cancelled. `ended` takes a watched cell that ended."""

    def __init__(
        self,
        store: WorkflowRuns,
        now: Callable[[], float],
        *,
        every_s: float,
        told: Callable[[Change], Awaitable[None]],
        ended: Callable[[Cell], None],
    ) -> None:
        self._store = store
        self._now = now
        self._every_s = every_s
        self._told = told
        self._ended = ended
        self._watched: weakref.WeakValueDictionary[str, Cell] = weakref.WeakValueDictionary()
        self._wanted = asyncio.Event()
        self._place: int | None = None
        self._version: bytes | int | None = None
        self._coming = 0
        """How many are about to watch."""
        self._reading = asyncio.Lock()
        """Around a look, and around the reading of what is watched from then on: no change comes between them."""

    async def wake(self) -> None:
        """Somebody waits: look from now on. Call it before what is waited for is read or written."""
        if self._place is None:
            place = await self._store.reads(self._store.place)
            if self._place is None:
                self._place, self._version = place, None
        self._wanted.set()

    async def watch(self, tenant: str, id: str) -> Cell | None:
        """A variable of another process, or one that ended; None where the tenant has none. Hold on to it while you wait."""
        if (cell := self._watched.get(id)) is not None and cell.tenant == tenant:
            return cell
        self._coming += 1
        try:
            await self.wake()
            async with self._reading:
                if (cell := self._watched.get(id)) is not None and cell.tenant == tenant:
                    return cell
                variable = await self._store.reads(self._store.variable, tenant, id, now_s=self._now())
                if variable is None:
                    return None
                cell = cell_of(variable)
                if not cell.ended:
                    self._watched[id] = cell
                return cell
        finally:
            self._coming -= 1

    def watched(self, id: str) -> Cell | None:
        """The cell of a variable that somebody here waits for."""
        return self._watched.get(id)

    async def follow(self, wanted: Callable[[], bool]) -> None:
        """Look until cancelled, while somebody watches or `wanted`."""
        while True:
            if not (self._watched or self._coming or wanted()):
                self._wanted.clear()
                self._place = None
                await self._wanted.wait()
            await asyncio.sleep(self._every_s)
            try:
                async with self._reading:
                    await self._look()
            except StoreError as error:
                log.warning("runs_not_followed", error=error)
            except Exception as error:
                log.error("runs_not_followed", error=type(error).__name__)

    async def _look(self) -> None:
        version = self._store.version()
        if self._place is None or version == self._version:
            return
        while True:
            found = await self._store.reads(self._store.changes, self._place)
            # Where reading fails, the same changes are read again at the next look.
            if found.missed:
                await self._read(list(self._watched))
            await self._read(c.variable_id for c in found.changes if c.kind == "variable")
            self._place = found.place
            for change in found.changes:
                if change.kind != "variable":
                    await self._told(change)
            if not found.changes:
                self._version = version
                return

    async def _read(self, ids: Iterable[str]) -> None:
        by_tenant: defaultdict[str, dict[str, Cell]] = defaultdict(dict)
        for id in ids:
            if (cell := self._watched.get(id)) is not None and not cell.ended:
                by_tenant[cell.tenant][id] = cell
        for tenant, cells in by_tenant.items():
            found = await self._store.reads(self._store.variables, tenant, list(cells), now_s=self._now())
            for id, cell in cells.items():
                await self._update(cell, found.get(id))

    async def _update(self, cell: Cell, found: Variable | None) -> None:
        if found is None:
            cell.fail(why(None), CANCELLED)
        elif found.attempt != cell.attempt:
            cell.begin(found.attempt)
            if cell.readers:
                self.note_stream(cell)
        if found is not None:
            if found.state == STREAMING and cell.readers:
                if text := await self._store.reads(self._store.text, cell.tenant, cell.id, len(cell.text)):
                    cell.say(text)
            else:
                end_as(cell, found)
        if cell.ended:
            cell.keep()
            self._watched.pop(cell.id, None)
            self._ended(cell)

    def note_stream(self, cell: Cell, criteria: str = "ttft") -> None:
        """Have the variable's owner store its text as it comes."""
        with suppress(StoreError):
            self._store.note_get(cell.tenant, cell.id, criteria, stream=True, now_s=self._now())


def cell_of(variable: Variable) -> Cell:
    """A stored variable as it is now."""
    cell = Cell(
        variable.id,
        variable.tenant,
        name=variable.name,
        app=variable.app,
        run=variable.run_id,
        end_user=variable.end_user,
    )
    cell.attempt = variable.attempt
    cell.expires_at_s = variable.expires_at_s
    end_as(cell, variable)
    cell.kept = cell.ended
    cell.private = variable.state == "ready" and variable.value is None
    return cell


def end_as(cell: Cell, variable: Variable) -> None:
    """Let the cell end as the stored variable has, if it has."""
    cell.expires_at_s = variable.expires_at_s
    if variable.state == "ready":
        cell.become(value_of(variable.value), held=variable.value is not None)
    elif variable.state in (FAILED, CANCELLED):
        cell.fail(why(variable.failure), variable.state)
    elif variable.state == SKIPPED:
        cell.fail(skipped(variable.name), SKIPPED)
