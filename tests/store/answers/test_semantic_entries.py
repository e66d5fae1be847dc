from __future__ import annotations

import pytest

from store.answers.semantic_entries import SemanticEntries
from store.database import Database
from store.examples.bank import ExampleBank
from store.records import ExactAnswer, Example
from tests.store.rows import new_example

KEY, OTHER_KEY = b"k" * 32, b"o" * 32


@pytest.fixture
def bank(db: Database) -> ExampleBank:
    return ExampleBank(db)


@pytest.fixture
def kept(db: Database) -> SemanticEntries:
    return SemanticEntries(db, ttl_s=100.0)


def answer(stored_at_s: float = 1000.0) -> ExactAnswer:
    return ExactAnswer(b'{"x":1}', "application/json", "large", stored_at_s)


def an_example(bank: ExampleBank, request_id: str = "r1") -> Example:
    return bank.add(new_example(1, request_id=request_id, question="Q?", answer="A.")).result(30)


def test_what_has_expired_is_deleted_when_something_is_added(
    bank: ExampleBank, kept: SemanticEntries, db: Database
) -> None:
    an_example(bank, "r1"), an_example(bank, "r2")
    kept.add("a1", "r1", KEY, "Q?", answer(1000), "A.").result(30)
    kept.add("a1", "r2", KEY, "Q?", answer(1100), "A.").result(30)
    assert db.read().execute("SELECT stored_at_s FROM semantic_entries").fetchall() == [(1100.0,)]
