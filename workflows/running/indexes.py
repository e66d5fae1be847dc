"""Indexes of texts by their vectors: of one run, or a kept collection of one tenant. Interfaces only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from store.records import Vector

Hit = tuple[str, float, int]
"""Text, distance, place."""


class RunIndex(Protocol):
    """An index of one run, or a kept collection of one tenant. Places are integers; ties in distance go by place."""

    async def add(self, place: int, texts: Sequence[str], vectors: Sequence[Vector]) -> None:
        """Take texts in at places from `place` on. Adding the same places again changes nothing."""
        ...

    async def search(self, vector: Vector, k: int) -> list[Hit]:
        """The nearest k."""
        ...


class Indexes(Protocol):
    """Makes indexes. A kept collection's rows are committed before `add` returns."""

    def of_run(self, run: str) -> RunIndex:
        """An empty one in memory."""
        ...

    def collection(self, tenant: str, name: str, *, embedder: str, contributor: str, source: str) -> RunIndex:
        """A tenant's collection, made if there is none. `source` (run:step) makes adding it again change nothing.

        Raises ComponentError if it holds vectors of another embedder's identity.
        """
        ...
