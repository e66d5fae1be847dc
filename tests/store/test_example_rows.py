"""Look-ups by request never reach into another tenant's rows."""

from __future__ import annotations

from store.database import Database
from store.example_rows import questions_of
from store.examples import ExampleBank
from tests.store.rows import new_example


def test_questions_are_given_by_request_and_only_to_their_tenant(db: Database) -> None:
    bank = ExampleBank(db)
    mine = bank.add(new_example(1)).result(30)
    theirs = bank.add(new_example(2, tenant="a2")).result(30)
    asked = [mine.request_id, theirs.request_id, "never-asked", ""]
    assert list(questions_of(db.read(), "a1", asked)) == [mine.request_id]
    assert questions_of(db.read(), "a1", asked)[mine.request_id] == new_example(1).embedded_text
    assert list(questions_of(db.read(), "a2", asked)) == [theirs.request_id]
