from __future__ import annotations

import pytest

from store.examples.bank import ExampleBank
from store.sqlite.database import Database
from tests.store.rows import new_example

pytestmark = pytest.mark.sqlite


@pytest.fixture
def bank(db: Database) -> ExampleBank:
    return ExampleBank(db)


def test_removed_text_is_in_no_file(bank: ExampleBank, db: Database) -> None:
    gone = [
        bank.add(new_example(n, question=f"MARKER {n} " + "x" * (n * 40))).result(30).id for n in range(100)
    ]
    kept = bank.add(new_example(1000, tenant="b2", question="KEPT " + "x" * 100)).result(30)
    db.scrub().result(30)
    assert b"MARKER" in db.path.read_bytes()

    assert bank.remove("a1", gone).result(30) == 100
    assert db.erase().result(30)

    files = {file.name: file.read_bytes() for file in db.path.parent.iterdir()}
    assert [name for name, content in files.items() if b"MARKER" in content] == []
    assert b"KEPT" in files["understudy.db"]
    assert bank.by_ids("b2", [kept.id]) == [kept]


def test_looking_for_what_has_to_be_embedded_reads_no_example_that_is_up_to_date(
    bank: ExampleBank, db: Database
) -> None:
    for number in range(50):
        bank.add(new_example(number, embedding_version=f"v{number % 4}")).result(30)
    assert len(bank.without_vector("v1", 100)) == len(bank.without_vector("v1", 1000)) == 37
    assert [waiting.id for waiting in bank.without_vector("v9", 10, after_id=40)] == list(range(41, 51))
    plans = [
        str(
            db.read()
            .execute(f"EXPLAIN QUERY PLAN SELECT id FROM examples WHERE {condition} ORDER BY id")
            .fetchall()
        )
        for condition in ("vector IS NULL AND id > 5", "embedding_version = 'v1' AND id > 5")
    ]
    assert "examples_waiting" in plans[0]
    assert "examples_by_version" in plans[1]


def test_eviction_and_lists_walk_an_index_and_not_the_texts(db: Database) -> None:
    from store.examples import capacity

    for query, index in ((capacity._BY_BYTE, "by_worth_per_byte"), (capacity._BY_WORTH, "by_worth")):
        plan = str(db.read().execute(f"EXPLAIN QUERY PLAN {query}", ("a1", 5)).fetchall())
        assert f"accounts_{index} " in plan
        assert "TEMP B-TREE" not in plan
