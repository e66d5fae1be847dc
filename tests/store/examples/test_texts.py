"""Texts of examples are found by id and by request, and never another tenant's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from store.examples.texts import ExampleTexts
from store.store import Memory
from tests.store.rows import new_example


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory.open(tmp_path)
    yield memory
    memory.close()


def test_texts_are_found_by_id_and_by_request_of_one_tenant_only(store: Memory) -> None:
    mine = store.examples.add(replace(new_example(1, "t1"), embedded_text="embedded so")).result(30)
    theirs = store.examples.add(new_example(2, "t2")).result(30)
    texts = ExampleTexts(store.db)
    assert texts.of("t1", [mine.id, theirs.id, 999]) == {mine.id: (mine.question, mine.answer)}
    assert texts.asked("t1", [mine.request_id, theirs.request_id, "gone"]) == {mine.request_id: "embedded so"}
    assert texts.of("t1", []) == texts.asked("t1", []) == {}


def test_an_example_of_no_request_is_nobodys_question(store: Memory) -> None:
    store.examples.add(replace(new_example(3, "t1"), request_id="")).result(30)
    assert ExampleTexts(store.db).asked("t1", [""]) == {}
