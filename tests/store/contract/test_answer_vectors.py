"""An answer's vector is its own tenant's, belongs to the answer as it is now, and leaves every file with its example."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from store import Store
from store.examples.answer_vectors import AnswerVectors, CandidateVectors
from store.examples.bank import ExampleBank
from store.examples.vectors import BadVector, from_blob, to_blob
from store.records import Example
from tests.store.rows import new_example, unit_vector


@pytest.fixture
def bank(store: Store) -> ExampleBank:
    return store.examples


@pytest.fixture
def kept(store: Store) -> AnswerVectors:
    return store.examples.answer_vectors


def add(bank: ExampleBank, number: int, tenant: str = "a1") -> Example:
    return bank.add(new_example(number, tenant)).result(30)


def put(kept: AnswerVectors, example: Example, version: str = "v1") -> bool:
    return kept.put(example.id, unit_vector(100 + example.id), version, example.answer).result(30)


def test_a_vector_comes_back_for_its_tenant_and_version_only(bank: ExampleBank, kept: AnswerVectors) -> None:
    mine, theirs, waiting = add(bank, 1), add(bank, 2, "b2"), add(bank, 3)
    assert put(kept, mine) and put(kept, theirs)
    ids = [mine.id, theirs.id, waiting.id, 999]
    found = kept.of("a1", ids, "v1")
    assert list(found) == [mine.id]
    np.testing.assert_array_equal(found[mine.id], from_blob(to_blob(unit_vector(100 + mine.id))))
    assert list(kept.of("b2", ids, "v1")) == [theirs.id]
    assert not kept.of("a1", ids, "v2") and not kept.of("a1", ids, "")


def test_what_is_missing_is_what_has_no_vector_of_the_version(bank: ExampleBank, kept: AnswerVectors) -> None:
    examples = [add(bank, n) for n in range(5)]
    assert [w.id for w in kept.missing("v1")] == [e.id for e in examples]
    assert kept.missing("v1")[0].answer == "answer 0"
    for example in examples[:3]:
        put(kept, example)
    assert [w.id for w in kept.missing("v1")] == [e.id for e in examples[3:]]
    assert [w.id for w in kept.missing("v2", limit=4)] == [e.id for e in examples[:4]]
    assert [w.id for w in kept.missing("v2", limit=2, after_id=examples[1].id)] == [
        e.id for e in examples[2:4]
    ]


def test_a_vector_of_an_answer_that_is_gone_is_not_kept(bank: ExampleBank, kept: AnswerVectors) -> None:
    example = add(bank, 1)
    bank.update("a1", example.id, answer="Corrected.").result(30)
    assert not put(kept, example), "it was made of the old answer"
    assert not kept.of("a1", [example.id], "v1")
    bank.remove("a1", [example.id]).result(30)
    assert not kept.put(example.id, unit_vector(1), "v1", "Corrected.").result(30)


def test_what_is_no_vector_is_refused_at_once(bank: ExampleBank, kept: AnswerVectors) -> None:
    example = add(bank, 1)
    with pytest.raises(BadVector):
        kept.put(example.id, np.zeros(8, np.float32), "v1", example.answer)
    with pytest.raises(ValueError, match="version"):
        kept.put(example.id, unit_vector(1), "", example.answer)


@pytest.fixture
def candidates(store: Store) -> Iterator[CandidateVectors]:
    yield store.examples.candidate_vectors(question_version="v1", answer_version="a1")


def test_candidates_get_both_vectors_of_the_right_versions_and_tenant(
    bank: ExampleBank, kept: AnswerVectors, candidates: CandidateVectors
) -> None:
    both, question_only, theirs = add(bank, 1), add(bank, 2), add(bank, 3, "b2")
    old = bank.add(new_example(4, embedding_version="v0")).result(30)
    none = bank.add(new_example(5, vector=None)).result(30)
    put(kept, both, "a1")
    put(kept, question_only, "a0")
    put(kept, old, "a1")
    found = candidates.pairs("a1", [both.id, question_only.id, theirs.id, old.id, none.id, 999])
    assert set(found) == {both.id, question_only.id, old.id}
    question, answer = found[both.id]
    np.testing.assert_array_equal(question, from_blob(to_blob(unit_vector(1))))
    np.testing.assert_array_equal(answer, from_blob(to_blob(unit_vector(100 + both.id))))
    assert found[question_only.id][0] is not None and found[question_only.id][1] is None
    assert found[old.id][0] is None and found[old.id][1] is not None
    assert not candidates.pairs("a1", [])


def test_without_a_version_for_answers_there_are_none(
    bank: ExampleBank, kept: AnswerVectors, store: Store
) -> None:
    example = add(bank, 1)
    put(kept, example, "a1")
    ((_, answer),) = (
        store.examples.candidate_vectors(question_version="v1").pairs("a1", [example.id]).values()
    )
    assert answer is None


def test_vectors_of_different_sizes_do_not_mix(
    bank: ExampleBank, kept: AnswerVectors, candidates: CandidateVectors
) -> None:
    example = add(bank, 1)
    kept.put(example.id, unit_vector(9, 4), "a1", example.answer).result(30)
    ((question, answer),) = candidates.pairs("a1", [example.id]).values()
    assert question is not None and question.shape == (8,)
    assert answer is not None and answer.shape == (4,)
