"""From a vector to candidate examples: stage one, relevance (EchoLM §4.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from router.plan import Candidate
from store.records import Example, Vector


class Index(Protocol):
    """What is needed of store.vector_index.TenantIndexes."""

    def nearest(self, tenant: str, vector: Vector, k: int) -> list[tuple[int, float]]: ...


class Bank(Protocol):
    """What is needed of store.examples.ExampleBank."""

    def by_ids(self, tenant: str, ids: Sequence[int]) -> list[Example]: ...


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
        neighbours: int,
        floor: float = -1.0,
        enough: int | None = None,
        lenders: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """`neighbours`: how many the index is asked for. Below `floor` (cosine) none is looked at, and reading stops once
        `enough` are found: a row costs more to read than to find."""
        self._index = index
        self._bank = bank
        self._neighbours = neighbours
        self._floor = floor
        self._enough = neighbours if enough is None else enough
        self._lenders = dict(lenders or {})

    def nearest(self, tenant: str, scope: str, vector: Vector) -> list[Candidate]:
        """Candidates, nearest first. Blocks for about a third of a millisecond: call it on a thread.

        The index knows tenants but not scopes, so what is found is filtered by scope here.
        """
        own = self._nearest_of(tenant, scope, vector)
        lenders = self._lenders.get(tenant)
        if not lenders:
            return own
        lent = [candidate for lender in lenders for candidate in self._nearest_of(lender, scope, vector)]
        # Sorting is stable: of two equally near, one's own comes first.
        return sorted([*own, *lent], key=lambda c: -c.similarity)[: self._neighbours]

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
