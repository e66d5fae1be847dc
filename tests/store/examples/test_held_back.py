"""What a person quarantined stays away: the same pair that comes along again does not bring it back."""

from __future__ import annotations

import pytest

from store.examples.bank import ExampleBank
from store.sqlite.database import Database


@pytest.fixture
def bank(db: Database) -> ExampleBank:
    return ExampleBank(db)


@pytest.mark.sqlite
def test_looking_for_what_is_held_reads_no_whole_bank(db: Database) -> None:
    from store.examples.admitting import _HELD

    plan = [row[3] for row in db.read().execute("EXPLAIN QUERY PLAN " + _HELD, ("a1", "s", 10))]
    assert any("accounts_held_back" in step for step in plan), plan
    assert not any(step.startswith("SCAN") or "TEMP B-TREE" in step for step in plan), plan
