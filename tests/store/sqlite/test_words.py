"""Searches find words, typed syntax is only words, and the words of what was deleted are in no file."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.database import WordsTable
from store.examples.bank import ExampleBank
from store.sqlite import words
from store.sqlite.database import Database
from tests.store.rows import new_example


def vocabulary(db: Database, table: WordsTable) -> set[str]:
    with closing(sqlite3.connect(db.path)) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE temp.known USING fts5vocab(main, {table}, row)")
        return {term for (term,) in connection.execute("SELECT term FROM temp.known")}


def found(db: Database, text: str) -> list[int]:
    match = words.as_match(text)
    rows = db.read().execute("SELECT rowid FROM example_words WHERE example_words MATCH ?", (match,))
    return [id for (id,) in rows.fetchall()]


def test_what_is_typed_becomes_words_and_the_last_one_a_beginning() -> None:
    assert words.as_match("list hidden fil") == '"list" "hidden" "fil"*'
    assert words.as_match('"hidden files"') == '"hidden files"'
    assert words.as_match('the "hidden files" ') == '"the" "hidden files"'
    assert words.as_match(' "" -- * ') == ""


@given(st.text(max_size=60))
def test_nothing_that_is_typed_is_an_error(typed: str) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5(q)")
        match = words.as_match(typed)
        if match:
            connection.execute("SELECT rowid FROM t WHERE t MATCH ?", (match,)).fetchall()


def test_an_example_is_found_by_its_words_as_they_are_now(db: Database) -> None:
    bank = ExampleBank(db)
    kept = bank.add(new_example(1, question="How do I list hidden files?", answer="Use ls.")).result(30)
    assert found(db, "hidden lis") == [kept.id]
    bank.update("a1", kept.id, answer="Use exa instead.").result(30)
    assert found(db, "exa ") == [kept.id] and not found(db, "ls ")


@pytest.mark.parametrize("others", [0, 3, 60])
def test_the_words_of_a_removed_example_leave_the_index_and_all_others_stay(
    db: Database, others: int
) -> None:
    bank = ExampleBank(db)
    for number in range(others):
        bank.add(new_example(number, question=f"shared kept{number}")).result(30)
    gone = bank.add(new_example(99, question="shared zyxwvut")).result(30)
    assert "zyxwvut" in vocabulary(db, "example_words")
    bank.remove("a1", [gone.id]).result(30)
    db.scrub().result(30)
    left = vocabulary(db, "example_words")
    assert "zyxwvut" not in left and {f"kept{number}" for number in range(others)} <= left


def test_purging_a_closed_store_is_nothing() -> None:
    class Closed:
        def write(self, *_: object, **__: object) -> None:
            from store.errors import StoreClosed

            raise StoreClosed("closed")

    words.SqliteWords(Closed()).purge_soon("example_words")  # type: ignore[arg-type]
