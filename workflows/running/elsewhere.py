"""Follows what other workers do to variables and runs: one look at their rows however many wait."""

from __future__ import annotations

import asyncio
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import structlog

from store.errors import StoreError
from store.workflows.records import News, Variable
from store.workflows.runs import WorkflowRuns
from workflows.running.cell import Cell
from workflows.running.live import value_of, why
from workflows.running.saving import done

log = structlog.get_logger(__name__)

_STORED_EVERY_S = 0.03
_STORED_AGAIN_S = 1.0


class Elsewhere:
    """`told` takes what others did to the runs of this worker (`live`)."""

    def __init__(
        self,
        store: WorkflowRuns,
        worker: str,
        now: Callable[[], float],
        *,
        every_s: float,
        live: Mapping[str, object],
        told: Callable[[News], None],
    ) -> None:
        self._store = store
        self._worker = worker
        self._now = now
        self._every_s = every_s
        self._live = live
        self._told = told
        self._watched: weakref.WeakValueDictionary[str, Cell] = weakref.WeakValueDictionary()
        self._wanted = asyncio.Event()
        self._version: bytes | int | None = None
        self._reading = asyncio.Lock()
        """Around a look, and around the reading of what is watched from then on: no change comes between them."""

    def wake(self) -> None:
        """Somebody waits: look from now on."""
        self._wanted.set()

    async def watch(self, tenant: str, id: str) -> Cell | None:
        """A variable of another worker, or one that ended; None if the tenant has none. Hold on to it while you wait."""
        async with self._reading:
            if (cell := self._watched.get(id)) is not None and cell.tenant == tenant:
                return cell
            variable = await self._store.reads(self._store.variable, tenant, id, now_s=self._now())
            if variable is None:
                return None
            cell = cell_of(variable)
            if not cell.ended:
                self._watched[id] = cell
                self.wake()
            return cell

    def watched(self, id: str) -> Cell | None:
        """The cell of a variable that somebody here waits for."""
        return self._watched.get(id)

    async def follow(self) -> None:
        """Look until cancelled, while somebody watches or a run goes on here."""
        while True:
            if not (self._watched or self._live):
                self._wanted.clear()
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
        if version == self._version:
            return
        if self._live:
            self._told(await self._store.reads(self._store.news, self._worker, list(self._live)))
        await self._read(list(self._watched))
        # Where reading fails, all is read again at the next look.
        self._version = version

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
            cell.fail(why(None))
        elif found.attempt != cell.attempt:
            cell.begin(found.attempt)
            if cell.readers:
                self.note_stream(cell)
        if found is not None:
            if found.state == "streaming" and cell.readers:
                if text := await self._store.reads(self._store.text, cell.tenant, cell.id, len(cell.text)):
                    cell.say(text)
            else:
                _end_as(cell, found)
        if cell.ended:
            cell.keep()
            self._watched.pop(cell.id, None)

    # ---- texts as they come

    def note_stream(self, cell: Cell, criteria: str = "ttft") -> None:
        """Have the variable's owner store its text as it comes."""
        with suppress(StoreError):
            self._store.note_get(cell.tenant, cell.id, criteria, stream=True)

    async def store_text(self, cell: Cell) -> None:
        """Store the text of a variable as it comes, some times a second, until it ends: another worker reads it."""
        stored = 0
        while not cell.ended:
            text = cell.text
            if len(text) == stored:
                await cell.changed()
                continue
            try:
                await done(self._store.append(self._worker, cell.id, stored, text[stored:]))
            except StoreError:
                # What others read may have no gap.
                await asyncio.sleep(_STORED_AGAIN_S)
            else:
                stored = len(text)
                await asyncio.sleep(_STORED_EVERY_S)


def cell_of(variable: Variable) -> Cell:
    """A stored variable as it is now."""
    cell = Cell(
        variable.id,
        variable.name,
        variable.tenant,
        app=variable.app,
        run=variable.run_id,
        end_user=variable.end_user,
        private=variable.state == "ready" and variable.value is None,
    )
    cell.attempt = variable.attempt
    _end_as(cell, variable)
    cell.kept = cell.ended
    return cell


def _end_as(cell: Cell, variable: Variable) -> None:
    """Let the cell end as the stored variable has, if it has."""
    cell.expires_at_s = variable.expires_at_s
    if variable.state == "ready":
        cell.become(None if variable.value is None else value_of(variable.value))
    elif variable.state == "skipped":
        cell.skip()
    elif variable.state in ("failed", "cancelled"):
        cell.fail(why(variable.failure))
