"""Texts by their vectors, each at a place: the nearest to a vector, by cosine distance.

Up to 20,000 texts every one is compared, so that it never matters in which order they were added; beyond that a graph is
asked (usearch), which finds nearly all. Of equal distances the lower place comes first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
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


_FIRST_ROWS, _MOST_ROWS = 64, 4096
"""The rows of one block: each is as large as all before it together, up to there."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows in the order in which they came. What is added later changes nothing of those before."""

    first: int
    places: npt.NDArray[np.int64]
    matrix: Vectors


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows that a search looks at: everything that was there when it began."""

    count: int
    blocks: tuple[_Block, ...]
    texts: Sequence[str]
    """By row; more may come at its end."""

    def some(self, numbers: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Vectors]:
        """Places and vectors of these rows."""
        firsts = np.array([block.first for block in self.blocks])
        found = [
            (self.blocks[at], number - firsts[at])
            for number, at in zip(numbers, np.searchsorted(firsts, numbers, "right") - 1, strict=True)
        ]
        places = np.array([block.places[row] for block, row in found], np.int64)
        return places, np.stack([block.matrix[row] for block, row in found])

    def since(self, first: int) -> Iterator[tuple[npt.NDArray[np.int64], Vectors]]:
        """Numbers and vectors of the rows from `first` on."""
        for block in self.blocks:
            begin, end = max(first, block.first), min(self.count, block.first + len(block.places))
            if begin < end:
                yield np.arange(begin, end), block.matrix[begin - block.first : end - block.first]


class VectorTable:
    """For the event loop's thread; what takes long is done on others. To take one text more costs the same however many
    there are."""

    def __init__(self, exact_up_to: int = EXACT_UP_TO) -> None:
        self._exact_up_to = exact_up_to
        self._numbers: dict[int, int] = {}
        """By place, the number of its row."""
        self._texts: list[str] = []
        self._blocks: list[_Block] = []
        self._texts_bytes = 0
        self._graph: Any = None
        self._in_graph = 0
        self._building = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def size_bytes(self) -> int:
        """Roughly, in memory."""
        return 2 * 4 * self.dimensions * len(self) + self._texts_bytes

    @property
    def dimensions(self) -> int:
        """Return the dimensions of its vectors; 0 before the first."""
        return int(self._blocks[0].matrix.shape[1]) if self._blocks else 0

    def add(self, place: int, texts: Sequence[str], vectors: Sequence[Vectors] | Vectors) -> None:
        """Take texts in at places from `place` on; adding the same again changes nothing.

        Raises ValueError if the vectors are not as many as the texts, or of another size than those before.
        """
        if len(texts) != len(vectors):
            raise ValueError(f"there are {len(vectors)} vectors for {len(texts)} texts")
        rows: Vectors = np.asarray(vectors, np.float32).reshape(len(texts), -1)
        if len(texts) and self._texts and rows.shape[1] != self.dimensions:
            raise ValueError(f"a vector has {rows.shape[1]} numbers; those before have {self.dimensions}")
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = np.divide(rows, np.where(lengths == 0, 1, lengths), dtype=np.float32)
        for number, text in enumerate(texts):
            self._put(place + number, text, rows[number])

    def _put(self, place: int, text: str, vector: Vectors) -> None:
        known = self._numbers.get(place)
        if known is None:
            known = self._numbers[place] = len(self._texts)
            self._texts.append(text)
        else:
            block = self._block_of(known, len(vector))
            if self._texts[known] == text and np.array_equal(block.matrix[known - block.first], vector):
                return
            # The graph is made anew: it cannot have another vector for a row.
            self._texts_bytes -= len(self._texts[known])
            self._texts[known] = text
            self._in_graph = min(self._in_graph, known)
        self._texts_bytes += len(text)
        block = self._block_of(known, len(vector))
        block.places[known - block.first], block.matrix[known - block.first] = place, vector

    def _block_of(self, number: int, dimensions: int) -> _Block:
        for block in reversed(self._blocks):
            if number >= block.first:
                if number < block.first + len(block.places):
                    return block
                break
        rows = min(max(number, _FIRST_ROWS), _MOST_ROWS)
        matrix = np.empty((rows, dimensions), np.float32)
        self._blocks.append(_Block(number, np.empty(rows, np.int64), matrix))
        return self._blocks[-1]

    async def search(self, vector: Vectors, k: int) -> list[Hit]:
        """The nearest k, nearest first. Raises ValueError for a vector of another size."""
        if not self._texts or k < 1:
            return []
        wanted = np.asarray(vector, np.float32).reshape(-1)
        if len(wanted) != self.dimensions:
            raise ValueError(
                f"the vector has {len(wanted)} numbers; those of the index have {self.dimensions}"
            )
        length = float(np.linalg.norm(wanted))
        wanted = wanted / (length or 1.0)
        rows = _Rows(len(self), tuple(self._blocks), self._texts)
        if rows.count > self._exact_up_to:
            return await self._by_graph(rows, wanted, k)
        if rows.count * self.dimensions <= _ON_THE_LOOP:
            return _nearest(rows, wanted, k)
        return await asyncio.to_thread(_nearest, rows, wanted, k)

    async def _by_graph(self, rows: _Rows, wanted: Vectors, k: int) -> list[Hit]:
        async with self._building:
            if self._in_graph < (0 if self._graph is None else len(self._graph)):
                self._graph = None
            if self._graph is None or self._in_graph < rows.count:
                self._graph = await asyncio.to_thread(_grown, self._graph, rows)
                self._in_graph = len(self._graph)
            return await asyncio.to_thread(_nearest_in_graph, self._graph, rows, wanted, k)


def _nearest(rows: _Rows, wanted: Vectors, k: int) -> list[Hit]:
    parts = list(rows.since(0))
    distances = 1.0 - np.concatenate([matrix @ wanted for _, matrix in parts])
    places = np.concatenate([block.places for block in rows.blocks])[: rows.count]
    return _first(np.arange(rows.count), places, distances, rows.texts, k)


def _first(
    numbers: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    distances: npt.NDArray[Any],
    texts: Sequence[str],
    k: int,
) -> list[Hit]:
    order = np.lexsort((places, distances))[:k]
    return [(texts[numbers[n]], float(distances[n]), int(places[n])) for n in order]


def _grown(graph: Any, rows: _Rows) -> Any:
    """The graph with what has come since, as the index of examples grows. Takes 0.4 ms for each text."""
    from store.examples.tenant_index import expansion_search, new_usearch_index

    if graph is None:
        graph = new_usearch_index(rows.blocks[0].matrix.shape[1])
    for numbers, matrix in rows.since(len(graph)):
        graph.add(numbers, matrix, threads=1)
    graph.expansion_search = expansion_search(rows.count)
    return graph


def _nearest_in_graph(graph: Any, rows: _Rows, wanted: Vectors, k: int) -> list[Hit]:
    """Its candidates are compared exactly: the graph holds 16 bits of each number."""
    found = np.sort(np.asarray(graph.search(wanted, 2 * k + 16, threads=1).keys, np.int64))
    places, matrix = rows.some(found[found < rows.count])
    return _first(found[found < rows.count], places, 1.0 - matrix @ wanted, rows.texts, k)
