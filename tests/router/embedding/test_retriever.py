"""Candidates come with their own vectors where somebody wants them: only those returned, each under its own tenant."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from functools import partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from router.digest import of_user
from router.embedding.retriever import Retriever
from store.examples.answer_vectors import AnswerVectors, CandidateVectors
from store.examples.bank import ExampleBank
from store.examples.search import ExampleSearch
from store.records import Example, Vector
from store.sqlite.database import Database
from tests.store.rows import new_example, unit_vector

QUERY = np.ones(8, np.float32)


class Index:
    """Nearest by a table: tenant to (id, similarity)."""

    def __init__(self, near: dict[str, list[tuple[int, float]]]) -> None:
        self._near = near

    def nearest(self, tenant: str, vector: Vector, k: int) -> list[tuple[int, float]]:
        return self._near.get(tenant, [])[:k]

    def size(self, tenant: str) -> int:
        return 1_000_000 if tenant == "large" else 3


class Counting:
    """Passes on, and notes what was asked for."""

    def __init__(self, vectors: CandidateVectors) -> None:
        self._vectors = vectors
        self.asked: list[tuple[str, list[int]]] = []

    def pairs(self, tenant: str, ids: Sequence[int]) -> dict[int, tuple[Vector | None, Vector | None]]:
        self.asked.append((tenant, list(ids)))
        return self._vectors.pairs(tenant, ids)


@pytest.fixture
def store(tmp_path: Path) -> Database:
    return Database.open(tmp_path / "u.db")


def fill(db: Database, tenant: str, count: int) -> list[Example]:
    bank, answers = ExampleBank(db), AnswerVectors(db)
    made = []
    for number in range(count):
        scope = "other" if number == 2 else "scope"
        example = bank.add(new_example(number, tenant, scope=scope, request_id=f"{tenant}-{number}")).result(
            30
        )
        if number != 1:
            answers.put(example.id, unit_vector(50 + example.id), "a", example.answer).result(30)
        made.append(example)
    return made


def near(examples: list[Example], step: float = 0.01) -> list[tuple[int, float]]:
    return [(e.id, 0.95 - step * place) for place, e in enumerate(examples)]


def test_only_a_small_bank_of_the_tenants_own_is_looked_through_at_once(store: Database) -> None:
    with closing(store):
        bank = ExampleBank(store)
        retriever = Retriever(Index({}), bank, lenders={"b2": ["a1"]})
        assert retriever.at_once("a1", "scope")
        assert not retriever.at_once("large", "scope") and not retriever.at_once("b2", "scope")
        assert not retriever.at_once("a1", of_user("scope", "u")), "compared one by one"
        vectors = CandidateVectors(store, question_version="v1", answer_version="a")
        assert not Retriever(Index({}), bank, with_vectors=vectors).at_once("a1", "scope")


def test_only_what_is_returned_gets_its_vectors(store: Database) -> None:
    with closing(store):
        mine = fill(store, "a1", 5)
        vectors = Counting(CandidateVectors(store, question_version="v1", answer_version="a"))
        retriever = Retriever(
            Index({"a1": near(mine)}), ExampleBank(store), neighbours=4, with_vectors=vectors
        )
        found = retriever.nearest("a1", "scope", QUERY)
        ids = [mine[0].id, mine[1].id, mine[3].id]
        assert [c.example.id for c in found] == ids
        assert vectors.asked == [("a1", ids)], "one is of another scope, and the fifth was not asked for"
        for candidate in found:
            assert candidate.vector is not None and candidate.vector.shape == (8,)
            assert (candidate.answer_vector is None) == (candidate.example.id == mine[1].id)
        assert found[0].vector is not None
        np.testing.assert_allclose(found[0].vector, unit_vector(0), atol=1e-3)


def test_a_lenders_vectors_come_with_the_lenders_examples(store: Database) -> None:
    with closing(store):
        mine, lent = fill(store, "a1", 2), fill(store, "b2", 2)
        vectors = Counting(CandidateVectors(store, question_version="v1", answer_version="a"))
        retriever = Retriever(
            Index({"a1": near(mine, 0.04), "b2": near(lent, 0.05)}),
            ExampleBank(store),
            neighbours=3,
            lenders={"a1": ["b2"]},
            with_vectors=vectors,
        )
        found = retriever.nearest("a1", "scope", QUERY)
        assert [c.example.id for c in found] == [mine[0].id, lent[0].id, mine[1].id]
        assert all(c.vector is not None for c in found)
        assert sorted(vectors.asked) == [("a1", [mine[0].id, mine[1].id]), ("b2", [lent[0].id])]


def test_without_a_reader_of_vectors_none_are_read(store: Database) -> None:
    with closing(store):
        mine = fill(store, "a1", 2)
        found = Retriever(Index({"a1": near(mine)}), ExampleBank(store), neighbours=4).nearest(
            "a1", "scope", QUERY
        )
        assert found and all(c.vector is None and c.answer_vector is None for c in found)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search by words ends after some milliseconds, which on a busy machine is before it began."""
    search = ExampleSearch.matching
    monkeypatch.setattr(ExampleSearch, "matching", partialmethod(search, within_s=30.0))


def worded(db: Database, tenant: str, *questions: str, **changes: object) -> list[Example]:
    bank = ExampleBank(db)
    return [
        bank.add(
            new_example(
                n,
                tenant,
                question=question,
                request_id=f"{tenant}{question}",
                **({"scope": "scope"} | changes),
            )
        ).result(30)
        for n, question in enumerate(questions)
    ]


def by_both(db: Database, near: dict[str, list[tuple[int, float]]], **more: Any) -> Retriever:
    vectors = CandidateVectors(db, question_version="v1")
    return Retriever(
        Index(near), ExampleBank(db), with_vectors=vectors, words=lambda text: text.lower().split(), **more
    )


def test_what_is_found_by_words_joins_the_nearest_with_its_own_cosine(store: Database) -> None:
    with closing(store):
        near_one, both, worded_one = worded(
            store, "a1", "sort pears", "harbour of Eastwick", "who runs Eastwick"
        )
        index = {"a1": [(near_one.id, 0.9), (both.id, 0.8)]}
        query = unit_vector(2)
        found = {
            c.example.id: c
            for c in by_both(store, index).nearest("a1", "scope", query, text="Eastwick ferry")
        }
        assert set(found) == {near_one.id, both.id, worded_one.id}
        assert found[near_one.id].words == 0.0 < found[both.id].words and found[worded_one.id].words > 0.0
        assert found[both.id].similarity == 0.8 and found[worded_one.id].similarity == pytest.approx(
            1.0, abs=1e-2
        )
        without = by_both(store, index).nearest("a1", "scope", query)
        assert [c.example.id for c in without] == [near_one.id, both.id], "without a text, by nearness alone"


def test_words_find_nothing_that_nearness_may_not(store: Database) -> None:
    with closing(store):
        worded(store, "b2", "harbour of Eastwick")
        worded(store, "a1", "mayor of Eastwick", scope="other")
        worded(store, "a1", "ferry of Eastwick", served_from_s=time.time() + 1000)
        worded(store, "a1", "Eastwick unembedded", vector=None)
        (mine,) = worded(store, "a1", "who runs Eastwick")
        (lent,) = worded(store, "c3", "Eastwick by night")
        retriever = by_both(store, {}, lenders={"a1": ["c3"]})
        found = retriever.nearest("a1", "scope", QUERY / np.sqrt(8), text="Eastwick")
        assert {c.example.id for c in found} == {mine.id, lent.id}
        comparable = retriever.nearest("a1", "scope", QUERY, lambda e: e.tenant == "c3", "Eastwick")
        assert [c.example.id for c in comparable] == [lent.id]
        assert by_both(store, {}, floor=1.1).nearest("a1", "scope", QUERY / 3, text="Eastwick") == []


def test_words_that_are_late_leave_the_nearest(store: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(store):
        (mine,) = worded(store, "a1", "who runs Eastwick")
        monkeypatch.setattr(ExampleSearch, "matching", lambda *_: [])
        found = by_both(store, {"a1": [(mine.id, 0.9)]}).nearest("a1", "scope", QUERY, text="Eastwick")
        assert [(c.example.id, c.similarity, c.words) for c in found] == [(mine.id, 0.9, 0.0)]
