"""Finds candidate examples by embedding and by words: stage one, relevance (EchoLM §4.1)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from router.digest import OF_USER, shared_scope
from router.plan import Candidate
from store.records import Example, Vector

NEIGHBOURS = 32
"""Candidates fetched per request before they are filtered."""
BY_WORDS = 20
"""The number of them that are found by words."""


if TYPE_CHECKING:
    from store.examples.answer_vectors import CandidateVectors
    from store.examples.bank import ExampleBank
    from store.examples.vector_index import TenantIndexes

_PAGE = 8
_AT_ONCE = 20_000
"""Examples of a tenant among which the nearest are found in a tenth of a millisecond."""
_UNKNOWN = -2.0
"""Similarity of what was found by words alone, until its vector is read."""


class Retriever:
    """Finds the nearest examples of the same tenant and scope, and of tenants that share with it explicitly.

    `lenders` maps a tenant to the tenants whose examples it may read. They are only read: new examples are stored under
    the reading tenant. A grant is not transitive: who may read a tenant may not read its lenders.
    """

    def __init__(
        self,
        index: TenantIndexes,
        bank: ExampleBank,
        *,
        neighbours: int = NEIGHBOURS,
        floor: float = -1.0,
        enough: int | None = None,
        lenders: Mapping[str, Sequence[str]] | None = None,
        for_all_users: Collection[str] = (),
        with_vectors: CandidateVectors | None = None,
        words: Callable[[str], list[str]] | None = None,
    ) -> None:
        """`neighbours`: number of results asked of the index. Those with a cosine below `floor` are ignored, and reading
        stops once `enough` are found: a row costs more to read than to find. `for_all_users`: tenants whose examples
        are no end user's own (learning.private), so that every one of their users reads them. `with_vectors` adds the
        embeddings of each candidate's question and answer, where known; a scorer uses them. `words` gives the words of a
        text by which examples are looked for, too (router.examples.rarity.Rarity.telling); only with `with_vectors`."""
        self._index = index
        self._bank = bank
        self._neighbours = neighbours
        self._floor = floor
        self._enough = neighbours if enough is None else enough
        self._lenders = dict(lenders or {})
        self._for_all_users = frozenset(for_all_users)
        self._vectors = with_vectors
        self._words = words

    def look_down_to(self, floor: float, enough: int) -> None:
        """Changes `floor` and `enough` from now on. May be called from any thread."""
        self._floor, self._enough = floor, enough

    def size(self, tenant: str) -> int:
        """Count the tenant's examples that are in memory."""
        return self._index.size(tenant)

    def at_once(self, tenant: str, scope: str) -> bool:
        """Tell if `nearest` takes a few tenths of a millisecond: less than to hand it to a thread and back under load."""
        few = self._index.size(tenant) <= _AT_ONCE and tenant not in self._lenders and OF_USER not in scope
        return few and self._vectors is None and self._bank.inline

    def kept(self, examples: Sequence[Candidate], scope: str) -> bool:
        """Tell if all of these are examples of this scope still, as they were. Blocks as `nearest` does."""
        if scope and any(one.example.tenant in self._for_all_users for one in examples):
            scope = shared_scope(scope)
        by_tenant: dict[str, list[Example]] = {}
        for one in examples:
            by_tenant.setdefault(one.example.tenant, []).append(one.example)
        return all(
            [(e.id, e.question, e.answer, scope) for e in whose]
            == [(e.id, e.question, e.answer, e.scope) for e in self._in_order(tenant, whose)]
            for tenant, whose in by_tenant.items()
        )

    def _in_order(self, tenant: str, examples: Sequence[Example]) -> list[Example]:
        found = {e.id: e for e in self._bank.by_ids(tenant, [e.id for e in examples])}
        return [found[e.id] for e in examples if e.id in found]

    def nearest(
        self,
        tenant: str,
        scope: str,
        vector: Vector,
        comparable: Callable[[Example], bool] = lambda example: True,
        text: str = "",
    ) -> list[Candidate]:
        """Candidates, nearest first. Blocks for a third of a millisecond, with `text` for some: call it on a thread.

        The index knows tenants but not scopes, so the scope is filtered here; so are examples that are not `comparable`.
        An end user's own examples are compared one by one: other users who ask the same would fill the list.
        """
        if tenant in self._for_all_users:
            scope = shared_scope(scope)
        found = self._nearest_of(tenant, scope, vector, comparable)
        if lenders := self._lenders.get(tenant):
            lent = [
                candidate
                for lender in lenders
                for candidate in self._nearest_of(lender, scope, vector, comparable)
            ]
            # Sorting is stable: of two equally near, the tenant's own comes first.
            found = sorted([*found, *lent], key=lambda c: -c.similarity)[: self._neighbours]
        if self._vectors is None:
            return found
        if self._words is not None and text and (words := self._words(text)):
            found = self._with_words(found, tenant, scope, words, comparable)
        found = _with_vectors(found, self._vectors)
        for candidate in found:
            if candidate.similarity == _UNKNOWN and candidate.vector is not None:
                candidate.similarity = float(candidate.vector @ vector)
        return sorted([c for c in found if c.similarity >= self._floor], key=lambda c: -c.similarity)

    def _with_words(
        self,
        near: list[Candidate],
        tenant: str,
        scope: str,
        words: Sequence[str],
        comparable: Callable[[Example], bool],
    ) -> list[Candidate]:
        """Also what has the words, of the same tenants and scope. Where that is late or fails, what is near alone."""
        by_id = {(c.example.tenant, c.example.id): c for c in near}
        for whose in (tenant, *self._lenders.get(tenant, ())):
            scores = dict(self._bank.search.matching(whose, scope, words, BY_WORDS))
            for example in self._bank.by_ids(whose, list(scores)):
                if example.scope != scope or not comparable(example):
                    continue
                known = by_id.setdefault((whose, example.id), Candidate(example, _UNKNOWN))
                known.words = scores[example.id]
        return list(by_id.values())

    def _nearest_of(
        self, tenant: str, scope: str, vector: Vector, comparable: Callable[[Example], bool]
    ) -> list[Candidate]:
        if OF_USER in scope:
            found = self._bank.nearest_in(tenant, scope, vector, self._neighbours, self._index.version)
        else:
            found = self._index.nearest(tenant, vector, self._neighbours)
        near = [pair for pair in found if pair[1] >= self._floor]
        candidates: list[Candidate] = []
        start = 0
        while start < len(near) and len(candidates) < self._enough:
            # As many pages at once as are needed if all of what is in them will do.
            pages = -(-(self._enough - len(candidates)) // _PAGE)
            page = dict(near[start : start + pages * _PAGE])
            examples = self._bank.by_ids(tenant, list(page))
            candidates += [Candidate(e, page[e.id]) for e in examples if e.scope == scope and comparable(e)]
            start += pages * _PAGE
        return candidates


def _with_vectors(candidates: list[Candidate], vectors: CandidateVectors) -> list[Candidate]:
    """The candidates with their embeddings, each read under its own tenant: a lender's are not the reader's."""
    by_tenant: dict[str, list[int]] = {}
    for candidate in candidates:
        by_tenant.setdefault(candidate.example.tenant, []).append(candidate.example.id)
    known: dict[int, tuple[Vector | None, Vector | None]] = {}
    for tenant, ids in by_tenant.items():
        known.update(vectors.pairs(tenant, ids))
    return [
        Candidate(c.example, c.similarity, *known.get(c.example.id, (None, None)), words=c.words)
        for c in candidates
    ]
