"""Texts by their vectors, each at a place: the nearest to a vector, by cosine distance.

Up to 20,000 texts every one is compared, so that it never matters in which order they were added; beyond that a graph is
asked (usearch), which finds nearly all. Of equal distances the lower place comes first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    Vectors = npt.NDArray[np.float32]

EXACT_UP_TO = 20_000
_ON_THE_LOOP = 200_000
"""Numbers that are multiplied in a tenth of a millisecond."""

Hit = tuple[str, float, int]
"""Text, distance (0 to 2), place."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """What a search looks at: everything that was there when it began, by place."""

    places: npt.NDArray[np.int64]
    matrix: Vectors
    texts: Sequence[str]


class VectorTable:
    """For the event loop's thread; what takes long is done on others."""

    def __init__(self, exact_up_to: int = EXACT_UP_TO) -> None:
        self._exact_up_to = exact_up_to
        self._added: dict[int, tuple[str, Vectors]] = {}
        self._rows: _Rows | None = None
        self._graph: Any = None
        self._in_graph = 0
        self._building = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._added)

    @property
    def size_bytes(self) -> int:
        """Roughly, in memory."""
        return sum(2 * vector.nbytes + len(text) for text, vector in self._added.values())

    @property
    def dimensions(self) -> int:
        """Of its vectors; 0 before the first."""
        return next((len(vector) for _, vector in self._added.values()), 0)

    def add(self, place: int, texts: Sequence[str], vectors: Vectors) -> None:
        """Take texts in at places from `place` on; adding the same again changes nothing.

        Raises ValueError where the vectors are not as many as the texts, or of another size than those before.
        """
        if len(texts) != len(vectors):
            raise ValueError(f"there are {len(vectors)} vectors for {len(texts)} texts")
        rows: Vectors = np.asarray(vectors, np.float32).reshape(len(texts), -1)
        if len(texts) and self._added and rows.shape[1] != self.dimensions:
            raise ValueError(f"a vector has {rows.shape[1]} numbers; those before have {self.dimensions}")
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = np.divide(rows, np.where(lengths == 0, 1, lengths), dtype=np.float32)
        for number, text in enumerate(texts):
            self._added[place + number] = (text, rows[number])
        self._rows = None

    async def search(self, vector: Vectors, k: int) -> list[Hit]:
        """The nearest k, nearest first. Raises ValueError for a vector of another size."""
        if not self._added or k < 1:
            return []
        wanted = np.asarray(vector, np.float32).reshape(-1)
        if len(wanted) != self.dimensions:
            raise ValueError(
                f"the vector has {len(wanted)} numbers; those of the index have {self.dimensions}"
            )
        length = float(np.linalg.norm(wanted))
        wanted = wanted / (length or 1.0)
        rows = self._rows
        if rows is None:
            async with self._building:
                rows = self._rows or await self._gathered()
        if len(rows.places) > self._exact_up_to:
            return await self._by_graph(rows, wanted, k)
        if rows.matrix.size <= _ON_THE_LOOP:
            return _nearest(rows, wanted, k)
        return await asyncio.to_thread(_nearest, rows, wanted, k)

    async def _gathered(self) -> _Rows:
        added = dict(self._added)
        if len(added) * self.dimensions <= _ON_THE_LOOP:
            rows = _by_place(added)
        else:
            rows = await asyncio.to_thread(_by_place, added)
        if len(added) == len(self._added):
            self._rows = rows
        return rows

    async def _by_graph(self, rows: _Rows, wanted: Vectors, k: int) -> list[Hit]:
        async with self._building:
            if self._graph is None or self._in_graph != len(rows.places):
                self._graph = await asyncio.to_thread(_graph, rows)
                self._in_graph = len(rows.places)
            return await asyncio.to_thread(_nearest_in_graph, self._graph, rows, wanted, k)


def _by_place(added: dict[int, tuple[str, Vectors]]) -> _Rows:
    places = sorted(added)
    matrix = np.stack([added[place][1] for place in places])
    return _Rows(np.array(places, np.int64), matrix, [added[place][0] for place in places])


def _nearest(rows: _Rows, wanted: Vectors, k: int) -> list[Hit]:
    distances = 1.0 - rows.matrix @ wanted
    order = np.lexsort((rows.places, distances))[:k]
    return [(rows.texts[n], float(distances[n]), int(rows.places[n])) for n in order]


def _graph(rows: _Rows) -> Any:
    """Takes 0.4 ms for each text."""
    from store.examples.tenant_index import expansion_search, new_usearch_index

    graph = new_usearch_index(rows.matrix.shape[1])
    graph.add(np.arange(len(rows.places)), rows.matrix, threads=1)
    graph.expansion_search = expansion_search(len(rows.places))
    return graph


def _nearest_in_graph(graph: Any, rows: _Rows, wanted: Vectors, k: int) -> list[Hit]:
    """Its candidates are compared exactly: the graph holds 16 bits of each number."""
    found = np.sort(np.asarray(graph.search(wanted, 2 * k + 16, threads=1).keys, np.int64))
    some = _Rows(rows.places[found], rows.matrix[found], [rows.texts[n] for n in found])
    return _nearest(some, wanted, k)
