"""From a vector to candidate examples: stage one, relevance (EchoLM §4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from router.plan import Candidate
from store.records import Example, Vector


class Index(Protocol):
    """What is needed of store.vector_index.TenantIndexes."""

    def nearest(self, tenant: str, vector: Vector, k: int) -> list[tuple[int, float]]: ...


class Bank(Protocol):
    """What is needed of store.examples.ExampleBank."""

    def by_ids(self, tenant: str, ids: Sequence[int]) -> list[Example]: ...


class Retriever:
    """Nearest examples of the same tenant and scope."""

    def __init__(self, index: Index, bank: Bank, *, neighbours: int) -> None:
        self._index = index
        self._bank = bank
        self._neighbours = neighbours

    def nearest(self, tenant: str, scope: str, vector: Vector) -> list[Candidate]:
        """Candidates, nearest first. Blocks for about a third of a millisecond: call it on a thread.

        The index knows tenants but not scopes, so what is found is filtered by scope here.
        """
        found = self._index.nearest(tenant, vector, self._neighbours)
        if not found:
            return []
        similarity = dict(found)
        examples = self._bank.by_ids(tenant, [example_id for example_id, _ in found])
        return [Candidate(e, similarity[e.id]) for e in examples if e.scope == scope]
