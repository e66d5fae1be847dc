"""An answer's vector is its own tenant's, belongs to the answer as it is now, and leaves every file with its example."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from store.database import Database
from store.examples.answer_vectors import AnswerVectors
from store.examples.bank import ExampleBank
from store.examples.capacity import make_room
from store.examples.vectors import to_blob
from store.records import Example
from store.sqlite.database import Database as SqliteDatabase
from tests.store.rows import new_example, unit_vector


@pytest.fixture
def bank(db: Database) -> ExampleBank:
    return ExampleBank(db)


@pytest.fixture
def kept(db: Database) -> AnswerVectors:
    return AnswerVectors(db)


def add(bank: ExampleBank, number: int, tenant: str = "a1") -> Example:
    return bank.add(new_example(number, tenant)).result(30)


def put(kept: AnswerVectors, example: Example, version: str = "v1") -> bool:
    return kept.put(example.id, unit_vector(100 + example.id), version, example.answer).result(30)


def counted(db: Database) -> None:
    """The accounts, and the sums the cap goes by, hold what the rows hold."""
    rows = db.read().execute(
        "SELECT a.tenant, a.size_bytes, length(CAST(question AS BLOB)) + length(CAST(answer AS BLOB))"
        " + length(CAST(embedded_text AS BLOB)) + coalesce(length(e.vector), 0) + coalesce(length(v.vector), 0) + 1024"
        " FROM examples e JOIN example_accounts a ON a.id = e.id JOIN answer_vectors v ON v.example_id = e.id"
    )
    sums: dict[str, int] = {}
    for tenant, said, is_ in rows.fetchall():
        assert said == is_
        sums[tenant] = sums.get(tenant, 0) + is_
    assert dict(db.read().execute("SELECT tenant, size_bytes FROM example_totals").fetchall()) == sums


@pytest.mark.sqlite
def test_finding_nothing_missing_reads_no_rows(
    bank: ExampleBank, kept: AnswerVectors, db: SqliteDatabase
) -> None:
    for n in range(3):
        put(kept, add(bank, n))
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    def cost() -> int:
        nonlocal steps
        steps = 0
        db.read().set_progress_handler(step, 1)
        try:
            assert not kept.missing("v1")
        finally:
            db.read().set_progress_handler(None, 1)
        return steps

    few = cost()
    for n in range(3, 300):
        put(kept, add(bank, n))
    assert cost() <= few + 5


def test_a_changed_answer_has_no_vector_and_waits_again(
    bank: ExampleBank, kept: AnswerVectors, db: Database
) -> None:
    example = add(bank, 1)
    put(kept, example)
    bank.update("a1", example.id, pinned=True).result(30)
    assert kept.of("a1", [example.id], "v1"), "the answer is what it was"
    bank.update("a1", example.id, answer="Corrected.").result(30)
    assert not kept.of("a1", [example.id], "v1")
    assert [w.answer for w in kept.missing("v1")] == ["Corrected."]
    counted(db)


def test_a_replaced_pair_loses_the_old_answers_vector(
    bank: ExampleBank, kept: AnswerVectors, db: Database
) -> None:
    old = add(bank, 1)
    put(kept, old)
    twin = new_example(1, answer="Said by a person.", kind="demonstration", request_id="other")
    admitted = bank.admit(
        new_example(
            1,
            answer=twin.answer,
            kind="demonstration",
            request_id="other",
            neighbours=((old.id, 1.0),),
        )
    ).result(30)
    assert admitted.outcome == "replaced" and admitted.example.id == old.id
    assert not kept.of("a1", [old.id], "v1")
    counted(db)


def test_vectors_are_counted_against_the_cap(bank: ExampleBank, kept: AnswerVectors, db: Database) -> None:
    rng = random.Random(4)
    examples = [add(bank, n, rng.choice(("a1", "b2"))) for n in range(30)]
    before = bank.totals("a1").size_bytes
    for example in examples:
        put(kept, example)
    counted(db)
    assert bank.totals("a1").size_bytes > before
    for example in rng.sample(examples, 10):
        put(kept, example, "v2")
    counted(db)
    make_room(bank, "a1", max_examples=3, max_bytes=10**9)
    counted(db)
    left = db.read().execute("SELECT count(*) FROM answer_vectors").fetchone()
    assert left == (bank.count(),)


def test_a_removed_examples_vector_is_in_no_file(tmp_path: Path) -> None:
    path = tmp_path / "u.db"
    with closing(SqliteDatabase.open(path)) as db:
        bank, kept = ExampleBank(db), AnswerVectors(db)
        gone, stays, changed = add(bank, 1), add(bank, 2), add(bank, 3)
        blobs = {}
        for example in (gone, stays, changed):
            put(kept, example)
            blobs[example.id] = to_blob(unit_vector(100 + example.id))
        assert db.scrub().result(30)
        assert all(blob in path.read_bytes() for blob in blobs.values())
        bank.remove("a1", [gone.id]).result(30)
        bank.update("a1", changed.id, answer="Another.").result(30)
        assert db.scrub().result(30)
        content = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert blobs[stays.id] in content
        assert blobs[gone.id] not in content and blobs[changed.id] not in content


def test_no_row_outlives_its_example(db: Database, bank: ExampleBank) -> None:
    example = add(bank, 1)
    bank.remove("a1", [example.id]).result(30)
    assert db.read().execute("SELECT count(*) FROM answer_vectors").fetchone() == (0,)
