"""Old removals may go; what they removed must not come back, to whoever was not looking."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from store.database import Database
from store.examples.bank import ExampleBank
from store.examples.capacity import compact
from store.examples.index_follower import IndexFollower
from store.examples.vector_index import TenantIndexes
from tests.store.rows import new_example, unit_vector


@pytest.fixture
def bank(db: Database) -> ExampleBank:
    bank = ExampleBank(db)
    for number in range(40):
        bank.add(new_example(number, tenant="a1" if number % 2 else "b2")).result(30)
    return bank


def loaded(bank: ExampleBank, folder: Path, *tenants: str) -> TenantIndexes:
    indexes = TenantIndexes(folder, 8, "v1")
    indexes.attach(bank, lambda: None)
    for tenant in tenants:
        indexes.load(tenant)
    return indexes


def found(indexes: TenantIndexes, tenant: str) -> set[int]:
    return {id for id, _ in indexes.nearest(tenant, unit_vector(1), 100)}


def ids(bank: ExampleBank, tenant: str) -> set[int]:
    return {example.id for example in bank.page(tenant, limit=1000)}


def removals(db: Database) -> int:
    row: tuple[int] = db.read().execute("SELECT count(*) FROM removed_examples").fetchone()
    return row[0]


def test_what_is_young_is_kept_and_what_is_old_is_dropped_in_bounded_steps(
    bank: ExampleBank, db: Database
) -> None:
    bank.remove("a1", sorted(ids(bank, "a1"))[:15]).result(30)
    assert compact(db).removals == 0
    assert removals(db) == 15
    assert compact(db, keep_removals_s=-10, batch=4).removals == 15
    assert removals(db) == 0
    assert bank.dropped(0) == {"a1": bank.last_seq()}
    assert bank.dropped(bank.last_seq()) == {}


def test_a_snapshot_from_before_a_dropped_removal_never_serves_what_was_removed(
    bank: ExampleBank, db: Database, tmp_path: Path
) -> None:
    old = loaded(bank, tmp_path / "index", "a1", "b2")
    assert old.save(bank.database_id(), bank.last_seq()) == 2
    gone = sorted(ids(bank, "a1"))[:5]
    bank.remove("a1", gone).result(30)
    compact(db, keep_removals_s=-10)

    again = loaded(bank, tmp_path / "index", "a1", "b2")
    assert found(again, "a1") == ids(bank, "a1")
    assert not found(again, "a1") & set(gone)
    assert found(again, "b2") == ids(bank, "b2")
    assert again.save(bank.database_id(), bank.last_seq()) == 1, "the other tenant's snapshot was still good"


def test_a_tenant_whose_last_change_was_a_dropped_removal_is_read_once_and_not_for_ever(
    bank: ExampleBank, db: Database, tmp_path: Path
) -> None:
    bank.remove_tenant("a1").result(30)
    compact(db, keep_removals_s=-10)
    indexes = loaded(bank, tmp_path / "index", "a1", "b2")
    assert found(indexes, "a1") == set()
    assert found(indexes, "b2") == ids(bank, "b2")


def test_a_follower_that_slept_through_the_dropping_reads_the_tenant_anew(
    bank: ExampleBank, open_again: Callable[[], Database], tmp_path: Path
) -> None:
    indexes = TenantIndexes(tmp_path / "index", 8, "v1")
    follower = IndexFollower(bank, indexes, poll_s=1e6)
    follower.start()
    assert follower.wait_for(0, 30)
    other = open_again()
    theirs = ExampleBank(other)
    theirs.remove("a1", sorted(ids(bank, "a1"))[:7]).result(30)
    compact(other, keep_removals_s=-10)
    added = theirs.add(new_example(999)).result(30)

    assert follower.wait_for(added.seq, 30)
    assert found(indexes, "a1") == ids(bank, "a1")
    assert added.id in found(indexes, "a1")
    before = indexes._resident["a1"]
    assert follower.wait_for(theirs.add(new_example(1000)).result(30).seq, 30)
    assert indexes._resident["a1"] is before, "it is read anew once, not at every look"
    assert follower.stop()


def test_ids_of_merged_requests_are_kept_for_a_while_and_not_for_ever(
    bank: ExampleBank, db: Database
) -> None:
    first = bank.page("a1", limit=1)[0]
    twin = new_example(5000, question=first.question, answer=first.answer, neighbours=((first.id, 1.0),))
    bank.admit(twin).result(30)
    assert compact(db).merged_requests == 0
    assert bank.admit(twin).result(30).outcome == "known"
    assert compact(db, keep_requests_s=-10).merged_requests == 1
