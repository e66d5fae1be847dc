"""From a vector to candidate examples: stage one, relevance (EchoLM §4.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from router.plan import Candidate
from store.records import Example, Vector

NEIGHBOURS = 32
"""Candidates fetched per request before they are filtered."""


class Index(Protocol):
    """What is needed of store.examples.vector_index.TenantIndexes."""

    def nearest(self, tenant: str, vector: Vector, k: int) -> list[tuple[int, float]]: ...


class Bank(Protocol):
    """What is needed of store.examples.bank.ExampleBank."""

    def by_ids(self, tenant: str, ids: Sequence[int]) -> list[Example]: ...


class VectorsOf(Protocol):
    """What is needed of store.examples.answer_vectors.CandidateVectors."""

    def pairs(self, tenant: str, ids: Sequence[int]) -> Mapping[int, tuple[Vector | None, Vector | None]]: ...


_PAGE = 8


class Retriever:
    """Nearest examples of the same tenant and scope, and of tenants that were explicitly made to share with it.

    `lenders`: tenant to the tenants whose examples it may read. Only ever read: what comes of it is remembered under the
    reader. A grant does not travel on: who may read a reader does not read its lenders.
    """

    def __init__(
        self,
        index: Index,
        bank: Bank,
        *,
        neighbours: int = NEIGHBOURS,
        floor: float = -1.0,
        enough: int | None = None,
        lenders: Mapping[str, Sequence[str]] | None = None,
        with_vectors: VectorsOf | None = None,
    ) -> None:
        """`neighbours`: how many the index is asked for. Below `floor` (cosine) none is looked at, and reading stops once
        `enough` are found: a row costs more to read than to find. `with_vectors`: also give each candidate's own vectors,
        of its question and its answer, where they are known; a scorer and a combiner want them."""
        self._index = index
        self._bank = bank
        self._neighbours = neighbours
        self._floor = floor
        self._enough = neighbours if enough is None else enough
        self._lenders = dict(lenders or {})
        self._vectors = with_vectors

    def look_down_to(self, floor: float, enough: int) -> None:
        """Look at another floor, for other numbers, from now on. From any thread."""
        self._floor, self._enough = floor, enough

    def nearest(self, tenant: str, scope: str, vector: Vector) -> list[Candidate]:
        """Candidates, nearest first. Blocks for about a third of a millisecond: call it on a thread.

        The index knows tenants but not scopes, so what is found is filtered by scope here.
        """
        found = self._nearest_of(tenant, scope, vector)
        if lenders := self._lenders.get(tenant):
            lent = [candidate for lender in lenders for candidate in self._nearest_of(lender, scope, vector)]
            # Sorting is stable: of two equally near, one's own comes first.
            found = sorted([*found, *lent], key=lambda c: -c.similarity)[: self._neighbours]
        return found if self._vectors is None else _with_vectors(found, self._vectors)

    def _nearest_of(self, tenant: str, scope: str, vector: Vector) -> list[Candidate]:
        near = [
            pair for pair in self._index.nearest(tenant, vector, self._neighbours) if pair[1] >= self._floor
        ]
        candidates: list[Candidate] = []
        for start in range(0, len(near), _PAGE):
            page = dict(near[start : start + _PAGE])
            examples = self._bank.by_ids(tenant, list(page))
            candidates += [Candidate(e, page[e.id]) for e in examples if e.scope == scope]
            if len(candidates) >= self._enough:
                break
        return candidates


def _with_vectors(candidates: list[Candidate], vectors: VectorsOf) -> list[Candidate]:
    """The same with their own vectors. Each tenant's are asked for under its name: a lender's are not the reader's."""
    by_tenant: dict[str, list[int]] = {}
    for candidate in candidates:
        by_tenant.setdefault(candidate.example.tenant, []).append(candidate.example.id)
    known: dict[int, tuple[Vector | None, Vector | None]] = {}
    for tenant, ids in by_tenant.items():
        known.update(vectors.pairs(tenant, ids))
    return [Candidate(c.example, c.similarity, *known.get(c.example.id, (None, None))) for c in candidates]
