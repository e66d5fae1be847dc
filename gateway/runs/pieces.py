"""Stores the text of variables as it comes, for those that another process reads as a stream: a few writes a second each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from gateway.runs.cell import Cell
from gateway.runs.saving import done
from store.errors import StoreError
from store.workflows.runs import WorkflowRuns

_EVERY_S = 0.03
_AGAIN_S = 1.0


class Pieces:
    """`note` a cell that said more."""

    def __init__(
        self, store: WorkflowRuns, owner: str, spawn: Callable[[Coroutine[Any, Any, Any], str], object]
    ) -> None:
        self._store = store
        self._owner = owner
        self._spawn = spawn
        self._under_way: set[str] = set()

    def note(self, cell: Cell) -> None:
        """It said more, and is shared."""
        if cell.id not in self._under_way:
            self._under_way.add(cell.id)
            self._spawn(self._store_text(cell), "store a stream")

    async def _store_text(self, cell: Cell) -> None:
        stored, attempt = 0, cell.attempt
        try:
            while not cell.ended and cell.attempt == attempt:
                text = cell.text
                if len(text) > stored:
                    try:
                        await done(self._store.append(self._owner, cell.id, stored, text[stored:]))
                    except StoreError:
                        # What others read may have no gap.
                        await asyncio.sleep(_AGAIN_S)
                        continue
                    stored = len(text)
                    await asyncio.sleep(_EVERY_S)
                else:
                    await cell.changed()
        finally:
            self._under_way.discard(cell.id)
