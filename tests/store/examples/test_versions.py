"""Old answers come back exactly as they were, are counted and deleted like the rest, and are never another person's."""

from __future__ import annotations

from store.database import Database
from store.examples.bank import ExampleBank
from store.examples.vectors import to_blob
from store.examples.versions import (
    ExampleVersions,
    add_variation,
)
from store.records import Example
from tests.store.behind import written_by
from tests.store.contract.test_versions import better, current, put
from tests.store.rows import new_example


def test_old_answers_go_with_the_example_and_when_its_texts_become_somebody_else_s(db: Database) -> None:
    bank = ExampleBank(db)
    first, second = (bank.add(new_example(n)).result() for n in (1, 2))
    for each in (first, second):
        assert put(bank, better(each))
    bank.remove("a1", [first.id]).result()
    twin = new_example(
        2,
        request_id="another",
        contributor="k2/else",
        quality=1.0,
        answer="a better answer and longer",
        neighbours=((second.id, 1.0),),
    )
    assert bank.admit(twin).result().outcome == "replaced"
    assert db.read().execute("SELECT count(*) FROM example_versions").fetchone() == (0,)
    example = current(bank, second)
    assert bank.totals("a1").size_bytes == example.size_bytes


def test_a_variation_is_written_once_and_only_beside_its_parent(db: Database) -> None:
    bank = ExampleBank(db)
    parent = bank.add(new_example(1)).result()
    new = new_example(2, request_id="replay-1-0")

    def write(parent_id: int) -> Example | None:
        assert new.vector is not None
        blob = to_blob(new.vector)
        return db.write(lambda c: add_variation(c, new, blob, parent_id, 4, "g", 1.0)).result()

    assert write(parent.id + 99) is None
    child = write(parent.id)
    assert child is not None
    assert write(parent.id) == child
    versions = ExampleVersions(db)
    assert (versions.parent_of("a1", child.id), written_by(versions, 4)) == (parent.id, [child.id])
    assert versions.parent_of("b2", child.id) is None
    pinned = write(parent.id)
    assert pinned is not None
    bank.update("a1", child.id, pinned=True).result()
    assert bank.versions.undo_run(4).result().left == 1, "somebody wants it"
    bank.update("a1", child.id, pinned=False).result()
    assert bank.versions.undo_run(4).result().removed == 1
