from __future__ import annotations

from collections.abc import Callable

import pytest

from store.answers.exact_cache import ExactCache
from store.database import Database
from store.examples.bank import ExampleBank
from store.records import Example
from tests.store.rows import answer, new_example

TAKEN_BACK: list[Callable[[ExampleBank, Example], object]] = [
    lambda bank, example: bank.remove("a1", [example.id]),
    lambda bank, example: bank.update("a1", example.id, answer="Corrected."),
    lambda bank, example: bank.hold_back("a1", example.id),
]


def test_replacing_an_answer_keeps_the_books_straight(db: Database) -> None:
    ours = ExactCache(db, ttl_s=100.0, memory_bytes=100_000, disk_bytes=1_000_000, max_entry_bytes=10_000)
    for size in (10, 5000, 200):
        ours.put(b"k", "a1", answer(b"x" * size)).result(30)
    (real,) = db.read().execute("SELECT sum(size_bytes) FROM exact_answers").fetchone()
    assert ours.size_bytes() == real
    ours.forget(tenant="a1").result(30)
    assert ours.size_bytes() == 0


@pytest.mark.parametrize("taken_back", TAKEN_BACK, ids=["removed", "corrected", "quarantined"])
@pytest.mark.parametrize("at_once", [False, True], ids=["before", "at the same time"])
def test_an_answer_whose_example_is_taken_back_meanwhile_is_not_kept(
    db: Database, taken_back: Callable[[ExampleBank, Example], object], at_once: bool
) -> None:
    ours = ExactCache(db, ttl_s=100.0, memory_bytes=100_000, disk_bytes=1_000_000, max_entry_bytes=10_000)
    bank = ExampleBank(db)
    used, other = (bank.add(new_example(n)).result(30) for n in (1, 2))
    assert ours.put(b"kept", "a1", answer(), examples=[used, other]).result(30)
    taken_back(bank, used)
    if not at_once:
        db.write(lambda connection: None).result(30)
    assert not ours.put(b"late", "a1", answer(), examples=[other, used]).result(30)
    assert ours.put(b"fine", "a1", answer(), examples=[other]).result(30)
    assert [ours.get(key, 1001.0) is not None for key in (b"kept", b"late", b"fine")] == [False, False, True]
