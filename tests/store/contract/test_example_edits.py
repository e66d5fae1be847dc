"""What a person changes of an example is one step in the log, and nothing of the old text stays findable."""

from __future__ import annotations

import time

import pytest

from store import Store
from store.records import HELD_BACK_S
from tests.store.rows import new_example


def test_what_is_anothers_cannot_be_changed(store: Store) -> None:
    bank = store.examples
    mine = bank.add(new_example(1)).result(30)
    changes = {"question": "q", "answer": "a", "embedded_text": "q", "vector": None, "embedding_version": ""}
    assert bank.rewrite("b2", mine.id, **changes).result(30) is None  # type: ignore[arg-type]
    assert bank.hold_back("b2", mine.id).result(30) is None
    assert bank.get("a1", mine.id) == mine


@pytest.mark.slow
def test_what_is_held_back_is_not_served_until_it_is_let_go(store: Store) -> None:
    bank = store.examples
    id = bank.add(new_example(1)).result(30).id
    held = bank.hold_back("a1", id).result(30)
    assert held is not None and held.served_from_s == HELD_BACK_S and bank.by_ids("a1", [id]) == []
    let = bank.let_go("a1", id).result(30)
    assert let is not None and let.served_from_s <= time.time() and len(bank.by_ids("a1", [id])) == 1
    pinned = bank.pin("a1", id, pinned=True).result(30)
    assert pinned is not None and pinned.pinned
