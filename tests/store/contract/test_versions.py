"""Old answers come back exactly as they were, are counted and deleted like the rest, and are never another person's."""

from __future__ import annotations

from dataclasses import replace

from store import Store
from store.examples.bank import ExampleBank
from store.examples.versions import (
    Replacement,
)
from store.records import Example
from tests.store.rows import new_example


def better(example: Example, answer: str = "a better answer, and longer", run: int = 1) -> Replacement:
    return Replacement(example.tenant, example.id, run, example.answer, answer, "lead", 7, 1.0)


def put(bank: ExampleBank, new: Replacement) -> bool:
    return bank.versions.replace(new, step_id=0, detail={}).result()


def current(bank: ExampleBank, example: Example) -> Example:
    found = bank.get(example.tenant, example.id)
    assert found is not None
    return found


def test_an_answer_goes_and_comes_back_with_all_that_was_known_of_it(store: Store) -> None:
    bank = store.examples
    before = bank.add(new_example(1, quality=0.25)).result()
    bank.ledger.note_gain([before.id], 3.0)
    bank.flush_uses().result()  # type: ignore[union-attr]
    assert put(bank, better(before))
    after = current(bank, before)
    assert (after.answer, after.source_engine, after.completion_tokens) == (
        "a better answer, and longer",
        "lead",
        7,
    )
    assert (after.quality, after.gain, after.seq) == (1.0, 0.0, before.seq)
    assert after.size_bytes == before.size_bytes + len(after.answer), "the old one is kept, and counted"
    assert bank.totals("a1").size_bytes == after.size_bytes
    done = bank.versions.undo_run(1).result()
    assert (done.restored, done.removed, done.left) == (1, 0, 0)
    restored = current(bank, before)._replace(gain_at_s=before.gain_at_s)
    assert restored == before
    assert store.examples.versions.of("a1", before.id) == []


def test_another_answer_that_came_meanwhile_is_not_overwritten_either_way(store: Store) -> None:
    bank = store.examples
    example = bank.add(new_example(1)).result()
    assert not put(bank, replace(better(example), incumbent="something that was there before"))
    assert not put(bank, replace(better(example), tenant="b2")), "nor another tenant's"
    assert put(bank, better(example))
    bank.update("a1", example.id, answer="a correction").result()
    done = bank.versions.undo_example("a1", example.id).result()
    assert (done.restored, done.left) == (0, 1)
    assert current(bank, example).answer == "a correction"


def test_a_handful_of_versions_is_kept_and_they_are_taken_back_one_by_one(store: Store) -> None:
    bank = store.examples
    example = bank.add(new_example(1)).result()
    for number in range(6):
        assert put(bank, better(current(bank, example), f"answer of run {number}", run=number))
    assert [v.answer for v in store.examples.versions.of("a1", example.id)] == [
        f"answer of run {number}" for number in (4, 3, 2, 1)
    ]
    assert bank.versions.undo_run(3).result().left == 1, "run 5 has replaced what run 3 put there"
    for expected in (4, 3, 2, 1):
        bank.versions.undo_example("a1", example.id).result()
        assert current(bank, example).answer == f"answer of run {expected}"
