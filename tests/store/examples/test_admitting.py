"""Twins on their way in: what must not be merged, overwritten or counted twice."""

from __future__ import annotations

import pytest

from store.database import Database
from store.examples.bank import ExampleBank
from store.sqlite.database import Database as SqliteDatabase
from tests.store.contract.test_admitting import asked, kept, near


@pytest.fixture
def bank(db: Database) -> ExampleBank:
    return ExampleBank(db)


def test_a_merged_request_s_id_means_nothing_to_another_tenant_and_goes_with_the_example(
    bank: ExampleBank, db: Database
) -> None:
    old = kept(bank)
    bank.admit(asked(2, neighbours=near(old))).result(30)
    assert bank.admit(asked(1, tenant="b2")).result(30).outcome == "added"
    bank.remove("a1", [old.id]).result(30)
    assert db.read().execute("SELECT count(*) FROM merged_requests").fetchone() == (0,)
    assert bank.admit(asked(1)).result(30).outcome == "added"


@pytest.mark.sqlite
def test_a_merged_pair_leaves_nothing_behind_of_whoever_it_came_from(
    bank: ExampleBank, db: SqliteDatabase
) -> None:
    old = kept(bank, contributor="ann", answer="It is Paris, says MARKER.")
    bank.admit(asked(2, answer="It is paris, says marker.", contributor="bob", neighbours=near(old))).result(
        30
    )
    assert bank.remove_contributor("a1", "ann").result(30) == 0
    assert db.erase().result(30)
    assert b"MARKER" not in db.path.read_bytes()
    assert bank.remove_contributor("a1", "bob").result(30) == 1
