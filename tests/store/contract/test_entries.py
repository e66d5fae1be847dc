from __future__ import annotations

from dataclasses import replace

import pytest

from store import Store
from store.answers.semantic_entries import SemanticEntries
from store.answers.semantic_observations import SemanticScope
from store.examples.bank import ExampleBank
from store.records import ExactAnswer, Example
from tests.store.contract.conftest import Opening
from tests.store.rows import new_example

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
SCOPE = SemanticScope("a1", "mini/1", "p")


@pytest.fixture
def store(open_store: Opening) -> Store:
    return open_store(exact_ttl_s=100.0)


@pytest.fixture
def bank(store: Store) -> ExampleBank:
    return store.examples


@pytest.fixture
def kept(store: Store) -> SemanticEntries:
    return store.answers.entries


def answer(stored_at_s: float = 1000.0) -> ExactAnswer:
    return ExactAnswer(b'{"x":1}', "application/json", "large", stored_at_s)


def an_example(bank: ExampleBank, request_id: str = "r1") -> Example:
    return bank.add(new_example(1, request_id=request_id, question="Q?", answer="A.")).result(30)


def ids(
    kept: SemanticEntries, example: Example, *, tenant: str = "a1", key: bytes = KEY, at: float = 1001
) -> list[int]:
    return [entry.id for entry in kept.among(tenant, key, [example.id], at).values()]


def test_an_entry_comes_back_as_it_was_kept_with_its_examples_texts(
    bank: ExampleBank, kept: SemanticEntries
) -> None:
    example = an_example(bank)
    assert kept.add("a1", "r1", KEY, "Q?", answer(), "A.").result(30)
    entry = kept.among("a1", KEY, [example.id], 1001)[example.id]
    assert (entry.question, entry.text) == ("Q?", "A.")
    assert entry.answer == replace(answer(), ttl_s=100.0)


def test_an_entry_from_the_future_is_never_given_out(bank: ExampleBank, kept: SemanticEntries) -> None:
    example = an_example(bank)
    assert kept.add("a1", "r1", KEY, "Q?", answer(stored_at_s=2000.0), "A.").result(30)
    assert not ids(kept, example, at=1939) and ids(kept, example, at=1940)


def test_an_entry_is_never_given_to_another_tenant_or_request_or_when_expired(
    bank: ExampleBank, kept: SemanticEntries
) -> None:
    example = an_example(bank)
    kept.add("a1", "r1", KEY, "Q?", answer(), "A.").result(30)
    assert ids(kept, example)
    assert not ids(kept, example, tenant="b2")
    assert not ids(kept, example, key=OTHER_KEY)
    assert not ids(kept, example, at=1100)


def test_an_example_in_quarantine_is_never_given(bank: ExampleBank, kept: SemanticEntries) -> None:
    example = an_example(bank)
    kept.add("a1", "r1", KEY, "Q?", answer(), "A.").result(30)
    bank.update("a1", example.id, served_from_s=1050.0).result(30)
    assert not ids(kept, example, at=1049) and ids(kept, example, at=1051)


@pytest.mark.parametrize(
    ("tenant", "request_id", "question", "text"),
    [
        ("b2", "r1", "Q?", "A."),
        ("a1", "r2", "Q?", "A."),
        ("a1", "r1", "Redacted?", "A."),
        ("a1", "r1", "Q?", "B."),
    ],
)
def test_nothing_hangs_on_an_example_of_another_pair(
    bank: ExampleBank, kept: SemanticEntries, tenant: str, request_id: str, question: str, text: str
) -> None:
    example = an_example(bank)
    assert not kept.add(tenant, request_id, KEY, question, answer(), text).result(30)
    assert not ids(kept, example) and not ids(kept, example, tenant=tenant)


def test_an_entry_and_its_comparisons_go_with_the_example_and_nothing_else_goes(
    bank: ExampleBank, kept: SemanticEntries, store: Store
) -> None:
    seen = store.answers.observations
    first, second = an_example(bank, "r1"), an_example(bank, "r2")
    for request_id in ("r1", "r2"):
        kept.add("a1", request_id, KEY, "Q?", answer(), "A.").result(30)
    (gone,), (stays,) = ids(kept, first), ids(kept, second)
    for entry_id in (gone, stays):
        seen.add(SCOPE, 0, entry_id, 0.9, True, {}).result(30)
    bank.remove("a1", [first.id]).result(30)
    assert not ids(kept, first) and ids(kept, second) == [stays]
    assert list(seen.of_entries("a1", "mini/1", [gone, stays])) == [stays]


def test_an_entry_never_outlives_its_examples_text(
    bank: ExampleBank, kept: SemanticEntries, store: Store
) -> None:
    example = an_example(bank)
    kept.add("a1", "r1", KEY, "Q?", answer(), "A.").result(30)
    bank.update("a1", example.id, pinned=True).result(30)
    assert ids(kept, example), "its text is what it was"
    bank.update("a1", example.id, answer="Corrected.").result(30)
    assert not ids(kept, example)


def test_forgetting_a_tenant_takes_nothing_of_others(bank: ExampleBank, kept: SemanticEntries) -> None:
    example = an_example(bank)
    kept.add("a1", "r1", KEY, "Q?", answer(), "A.").result(30)
    assert kept.forget_tenant("b2").result(30) == 0 and ids(kept, example)
    assert kept.forget_tenant("a1").result(30) == 1 and not ids(kept, example)
