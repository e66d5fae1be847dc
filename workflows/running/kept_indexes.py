"""The indexes of workflows: of one run, in memory; or of a tenant's kept collection, whose rows are in the store.

A collection's index is derived from its rows and follows them before each search, so that what another worker or run has
added is found. Tenants are apart by name: a collection is always asked for with its tenant.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import numpy as np
from cachetools import LRUCache

from engines.components.component import ComponentError
from store.records import Vector
from store.workflows.assets import Assets, CollectionPlace, CollectionText, NewText
from store.workflows.records import Limits, TooManyBytes
from workflows.running.vector_table import Hit, VectorTable

_AT_ONCE = 1000
_KEPT = 64
"""Collections whose index stays in memory."""


class OfRun:
    """An index of one run. See workflows.running.indexes.RunIndex."""

    def __init__(self) -> None:
        self._table = VectorTable()

    @property
    def size_bytes(self) -> int:
        """Roughly, in memory."""
        return self._table.size_bytes

    async def add(self, place: int, texts: Sequence[str], vectors: Sequence[Vector]) -> None:
        """Take texts in at places from `place` on. Raises ComponentError for vectors of another size."""
        try:
            self._table.add(place, texts, vectors)
        except ValueError as error:
            raise ComponentError(f"The index of the run: {error}.", component="") from None

    async def search(self, vector: Vector, k: int) -> list[Hit]:
        """The nearest k. Raises ComponentError for a vector of another size."""
        try:
            return await self._table.search(vector, k)
        except ValueError as error:
            raise ComponentError(f"The index of the run: {error}.", component="") from None


class _Followed:
    """The index of one collection, as far as its rows were read."""

    def __init__(self, assets: Assets, tenant: str, name: str) -> None:
        self._assets = assets
        self._tenant = tenant
        self._name = name
        self._lock = asyncio.Lock()
        self._place: CollectionPlace | None = None
        self.identity = ""
        """The embedder of its vectors; empty while it is empty."""
        self.table = VectorTable()

    async def follow(self) -> None:
        """Read what was added, or all of it where something was removed or replaced."""
        place = await self._assets.reads(self._assets.place, self._tenant, self._name)
        if place == self._place:
            return
        async with self._lock:
            place = await self._assets.reads(self._assets.place, self._tenant, self._name)
            if place == self._place:
                return
            if place is None or self._place is None or place.generation != self._place.generation:
                self.table, self.identity, self._place = VectorTable(), "", None
            if place is not None:
                await self._read(self._place.last_seq if self._place is not None else 0)
            self._place = place

    async def _read(self, after_seq: int) -> None:
        while True:
            found = await asyncio.to_thread(self._assets.texts, self._tenant, self._name, after_seq, _AT_ONCE)
            for row in found:
                self._take(row)
            if len(found) < _AT_ONCE:
                return
            after_seq = found[-1].seq

    def _take(self, row: CollectionText) -> None:
        if self.identity and row.identity != self.identity:
            # Written by a configuration of before: those cannot be compared.
            self.identity = MIXED
        elif not self.identity:
            self.identity = row.identity
        vector = np.frombuffer(row.vector, dtype="<f4")
        if not len(self.table) or len(vector) == self.table.dimensions:
            self.table.add(row.seq, [row.text], vector[np.newaxis])


MIXED = "of several embedders"


class OfCollection:
    """A tenant's collection. See workflows.running.indexes.RunIndex. Its places are the store's own."""

    def __init__(
        self,
        followed: _Followed,
        assets: Assets,
        tenant: str,
        name: str,
        *,
        identity: str,
        contributor: str,
        limits: Limits,
    ) -> None:
        self._followed = followed
        self._assets = assets
        self._tenant = tenant
        self._name = name
        self._identity = identity
        self._contributor = contributor
        self._limits = limits

    async def add(self, place: int, texts: Sequence[str], vectors: Sequence[Vector]) -> None:
        """Keep texts: committed when this returns. The same texts again change nothing but their vectors.

        Raises ComponentError if it holds another embedder's vectors, or the tenant has too much.
        """
        await self._checked()
        rows = np.asarray(vectors, dtype="<f4")
        kept = [NewText(text, row.tobytes()) for text, row in zip(texts, rows, strict=True)]
        if not kept:
            return
        added = self._assets.add_texts(
            self._tenant,
            self._name,
            kept,
            identity=self._identity,
            now_s=time.time(),
            contributor=self._contributor,
            limits=self._limits,
        )
        try:
            await asyncio.wrap_future(added)
        except TooManyBytes as error:
            raise self._error(f"would hold more than its tenant may keep ({error})") from None

    async def search(self, vector: Vector, k: int) -> list[Hit]:
        """The nearest k. Raises ComponentError if it holds another embedder's vectors."""
        await self._checked()
        try:
            return await self._followed.table.search(vector, k)
        except ValueError as error:
            raise self._error(f"cannot be searched: {error}") from None

    async def _checked(self) -> None:
        followed = self._followed
        await followed.follow()
        if followed.identity not in ("", self._identity):
            raise self._error(
                "holds vectors of another embedder than the one that is asked; name that one in the step, or delete the "
                "collection and ingest its texts again"
            )

    def _error(self, what: str) -> ComponentError:
        return ComponentError(f"The collection '{self._name.rpartition('/')[2]}' {what}.", component="")


class WorkflowIndexes:
    """Makes indexes. See workflows.running.indexes.Indexes. `identity`: of an embedder, by the component's name."""

    def __init__(
        self, assets: Assets | None, identity: Callable[[str], str], limits: Limits | None = None
    ) -> None:
        self._assets = assets
        self._identity = identity
        self._limits = limits or Limits()
        self._followed: LRUCache[tuple[str, str], _Followed] = LRUCache(_KEPT)

    def of_run(self, run: str) -> OfRun:
        """An empty one in memory."""
        return OfRun()

    def collection(
        self, tenant: str, name: str, *, embedder: str, contributor: str, source: str
    ) -> OfCollection:
        """A tenant's collection; it exists once a text was added. Adding a contributor's text again keeps it once, so that
        `source` need not be told. Raises ComponentError if nothing is kept here."""
        if self._assets is None:
            raise ComponentError(f"The collection '{name}' needs a memory to be kept in.", component="")
        followed = self._followed.get((tenant, name))
        if followed is None:
            followed = self._followed[tenant, name] = _Followed(self._assets, tenant, name)
        return OfCollection(
            followed,
            self._assets,
            tenant,
            name,
            identity=self._identity(embedder),
            contributor=contributor,
            limits=self._limits,
        )
