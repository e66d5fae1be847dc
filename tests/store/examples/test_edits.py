"""What a person changes of an example is one step in the log, and nothing of the old text stays findable."""

from __future__ import annotations

import pytest

from store.examples.bank import ExampleBank
from store.sqlite.database import Database
from tests.store.rows import new_example, unit_vector
from tests.store.sqlite.test_words import vocabulary


@pytest.mark.sqlite
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
