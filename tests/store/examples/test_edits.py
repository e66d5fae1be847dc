"""What a person changes of an example is one step in the log, and nothing of the old text stays findable."""

from __future__ import annotations

import time

from store.examples.bank import ExampleBank
from store.records import HELD_BACK_S
from store.sqlite.database import Database
from tests.store.rows import new_example, unit_vector
from tests.store.sqlite.test_words import vocabulary


def test_new_texts_come_with_their_vector_and_without_the_old_ones_judgements(db: Database) -> None:
    bank = ExampleBank(db)
    old = bank.add(new_example(1, question="an oldword", quality=0.9)).result(30)
    before = bank.last_seq()
    fields = {"question": "a newword", "answer": "A.", "embedded_text": "a newword"}
    changed = bank.rewrite("a1", old.id, vector=unit_vector(5), embedding_version="v2", **fields).result(30)  # type: ignore[arg-type]
    assert changed is not None and (changed.question, changed.answer) == ("a newword", "A.")
    assert changed.quality is None and changed.embedding_version == "v2"
    (step,) = bank.tail(before)
    assert step.id == old.id and step.vector is not None and float(step.vector @ unit_vector(5)) > 0.999
    db.drain(30)
    known = vocabulary(db, "example_words")
    assert "newword" in known and "oldword" not in known
    assert bank.totals("a1").size_bytes == changed.size_bytes


def test_what_is_anothers_cannot_be_changed(db: Database) -> None:
    bank = ExampleBank(db)
    mine = bank.add(new_example(1)).result(30)
    changes = {"question": "q", "answer": "a", "embedded_text": "q", "vector": None, "embedding_version": ""}
    assert bank.rewrite("b2", mine.id, **changes).result(30) is None  # type: ignore[arg-type]
    assert bank.hold_back("b2", mine.id).result(30) is None
    assert bank.get("a1", mine.id) == mine


def test_what_is_held_back_is_not_served_until_it_is_let_go(db: Database) -> None:
    bank = ExampleBank(db)
    id = bank.add(new_example(1)).result(30).id
    held = bank.hold_back("a1", id).result(30)
    assert held is not None and held.served_from_s == HELD_BACK_S and bank.by_ids("a1", [id]) == []
    let = bank.let_go("a1", id).result(30)
    assert let is not None and let.served_from_s <= time.time() and len(bank.by_ids("a1", [id])) == 1
    pinned = bank.pin("a1", id, pinned=True).result(30)
    assert pinned is not None and pinned.pinned
