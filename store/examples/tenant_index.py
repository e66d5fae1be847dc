"""One tenant's nearest-neighbour index: ids and directions. Knows no tenant, no text and no file."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from store.records import Vector

CONNECTIVITY = 16
EXPANSION_ADD = 128
_TOMBSTONE_SHARE = 0.2
_CHUNK = 256
_LAST_CHUNK = 32
"""So many changes that came during a rebuild are taken in while searches wait: some 10 ms."""


def expansion_search(count: int) -> int:
    """How many candidates a search keeps, by how many vectors there are: what benchmarks/retrieval found to do.

    A graph ten times as large needs more candidates for the same recall; a small one does not pay for what only
    a large one needs.
    """
    return 64 if count < 200_000 else 96 if count < 500_000 else 128


def new_usearch_index(dimensions: int) -> Any:
    """An empty HNSW graph (Malkov and Yashunin, arXiv 1603.09320) over bfloat16 vectors and cosine distance."""
    # usearch loaded before onnxruntime makes the latter's import crash the process; the other order is fine.
    with contextlib.suppress(ImportError):
        import onnxruntime  # noqa: F401
    from usearch.index import Index

    return Index(
        ndim=dimensions,
        metric="cos",
        dtype="bf16",
        connectivity=CONNECTIVITY,
        expansion_add=EXPANSION_ADD,
        expansion_search=expansion_search(0),
    )


class TenantIndex:
    """A graph of vectors. Adds and removes are made by one thread; searches may come from any, a rebuild from another.

    A lock keeps a search and an add apart: usearch means to allow both at once, but a race in its concurrent updates
    has been reported, and waiting for one add costs a search less than half a millisecond.
    """

    def __init__(self, dimensions: int, index: Any = None, folded_seq: int = 0) -> None:
        self._dimensions = dimensions
        # None until the first add: an empty graph already costs 60 KiB, and anybody can make up a tenant.
        self._index = index
        # Counted here: usearch walks all nodes to tell.
        self._tombstones = 0 if index is None else int(index.stats.nodes) - len(index)
        self._lock = threading.Lock()
        self._rebuilding = threading.Lock()
        self._meanwhile: set[int] | None = None
        self.changes = 0
        """Adds and removes since this object was made."""
        self.folded_seq = folded_seq
        """The last place in the log that was taken in."""
        self.tainted = False
        """A tombstone still holds a vector that has to leave the files: write none before a rebuild."""

    def __len__(self) -> int:
        return 0 if self._index is None else len(self._index)

    @property
    def tombstones(self) -> int:
        """Removed vectors that still take up a place in the graph; an add takes over such a place."""
        return self._tombstones

    @property
    def worn(self) -> bool:
        """Whether more than a fifth of the graph is tombstones, or one of them has to go."""
        tombstones = self.tombstones
        return self.tainted or tombstones > (len(self) + tombstones) * _TOMBSTONE_SHARE

    def add(self, id: int, vector: Vector) -> None:
        """Put an id at a direction, in the place of where it was before. About 0.4 ms at 20,000 vectors."""
        with self._lock:
            if self._index is None:
                self._index = new_usearch_index(self._dimensions)
            elif id in self._index:
                self._index.remove(id)
                self._tombstones += 1
            self._index.add(id, vector, threads=1)
            self._tombstones = max(0, self._tombstones - 1)
            self._changed(id)

    def remove(self, id: int, *, erase: bool = False) -> None:
        """Take an id out; nothing happens if it is not there. `erase` makes the index `tainted` until it is rebuilt."""
        with self._lock:
            if self._index is not None and id in self._index:
                self._index.remove(id)
                self._tombstones += 1
                self.tainted = self.tainted or erase
                self._changed(id)

    def nearest(self, vector: Vector, k: int) -> list[tuple[int, float]]:
        """Up to k (id, cosine similarity), best first."""
        with self._lock:
            if self._index is None:
                return []
            expansion = expansion_search(len(self._index))
            if self._index.expansion_search != expansion:
                self._index.expansion_search = expansion
            matches = self._index.search(vector, k, threads=1)
        # Numbers of Python's all at once: one by one each costs as much as comparing two vectors.
        distances = matches.distances.tolist()
        return [(id, 1.0 - distance) for id, distance in zip(matches.keys.tolist(), distances, strict=True)]

    def rebuild(self, stopping: Callable[[], bool] = lambda: False) -> bool:
        """Build the graph anew without tombstones and swap it in. Searches, adds and removes go on meanwhile.

        What came meanwhile is taken in before the swap. False, and nothing has changed, if `stopping` said so. About
        0.5 ms per vector at 100,000. A second caller waits for the first.
        """
        with self._rebuilding:
            with self._lock:
                if self._index is None:
                    return True
                ids = np.sort(np.asarray(self._index.keys[:]))
                self._meanwhile = set()
                # What is erased from here on is in neither graph or is noted in `_meanwhile`.
                was_tainted, self.tainted = self.tainted, False
            swapped = False
            try:
                fresh = new_usearch_index(self._dimensions)
                for start in range(0, len(ids), _CHUNK):
                    if stopping():
                        return False
                    with self._lock:
                        present, vectors = self._vectors([int(id) for id in ids[start : start + _CHUNK]])
                    if present:
                        fresh.add(np.array(present), vectors, threads=1)
                while not swapped:
                    swapped = self._catch_up_and_swap(fresh)
            finally:
                with self._lock:
                    self._meanwhile = None
                    self.tainted = self.tainted or (was_tainted and not swapped)
        return True

    def rebuild_if_worn(self) -> bool:
        """`rebuild` if the index is `worn`; whether it was."""
        return self.worn and self.rebuild()

    def to_bytes(self) -> bytearray:
        """The graph as usearch writes it. Raises ValueError for an index that never held anything."""
        with self._lock:
            if self._index is None:
                raise ValueError("an index without a graph has no bytes")
            written: bytearray = self._index.save()
        return written

    def _catch_up_and_swap(self, fresh: Any) -> bool:
        """Take in what changed meanwhile; swap if that was little, and say whether."""
        with self._lock:
            assert self._meanwhile is not None
            changed, self._meanwhile = sorted(self._meanwhile), set()
            present, vectors = self._vectors(changed)
            if len(changed) <= _LAST_CHUNK:
                _replace(fresh, changed, present, vectors)
                # A vector that was erased after its chunk had been copied is a tombstone of the new graph.
                self._index = fresh if len(fresh) else None
                self._tombstones = int(fresh.stats.nodes) - len(fresh) if len(fresh) else 0
                self.tainted = self.tainted and self._index is not None
                self.changes += 1
                return True
        _replace(fresh, changed, present, vectors)
        return False

    def _vectors(self, ids: Sequence[int]) -> tuple[list[int], npt.NDArray[Any]]:
        present = [id for id in ids if id in self._index]
        if not present:
            return [], np.empty((0, self._dimensions), np.float32)
        return present, np.asarray(self._index.get(np.array(present))).reshape(len(present), -1)

    def _changed(self, id: int) -> None:
        self.changes += 1
        if self._meanwhile is not None:
            self._meanwhile.add(id)


def _replace(graph: Any, changed: Sequence[int], present: Sequence[int], vectors: npt.NDArray[Any]) -> None:
    for id in changed:
        if id in graph:
            graph.remove(id)
    for id, vector in zip(present, vectors, strict=True):
        graph.add(id, vector, threads=1)
