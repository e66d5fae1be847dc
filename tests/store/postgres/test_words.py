"""Searches by words find and rank as SQLite's do, whatever is typed, and no text is too long for them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.database import Database
from store.examples.bank import ExampleBank
from store.examples.search import ExampleSearch
from store.postgres import words
from store.postgres.database import PostgresDatabase
from store.sqlite.database import Database as SqliteDatabase
from tests.store.rows import new_example

TOWNS = (
    "Eastwick",
    "Westwick",
    "Où-lès-Zoë",
    "1e5x",
    "Přerov",
    "СЛОВО",
    "日本",
    "snake_case",
    "3.14",
    "O'Brien",
)
FILLING = ("population", "of", "the", "harbour", "mayor", "tide", "ferry", "rain")


@pytest.fixture
def db(postgres_url: str) -> Iterator[PostgresDatabase]:
    database = PostgresDatabase.open(postgres_url)
    yield database
    database.close()


@pytest.fixture
def both(db: PostgresDatabase, tmp_path: Path) -> Iterator[tuple[Database, Database]]:
    """Two databases with the same examples, of two tenants."""
    sqlite = SqliteDatabase.open(tmp_path / "understudy.db")
    chance = random.Random(5)
    made = [
        new_example(
            number,
            "a1" if number % 4 else "b2",
            scope="s1" if number % 3 else "s2/ann",
            question=" ".join([*chance.choices(FILLING, k=chance.randint(1, 9)), chance.choice(TOWNS)]) + "?",
            answer=" ".join(chance.choices((*FILLING, *TOWNS), k=chance.randint(1, 40))),
        )
        for number in range(120)
    ]
    for database in (db, sqlite):
        bank = ExampleBank(database)
        for future in [bank.add(example) for example in made]:
            future.result(60)
    yield db, sqlite
    sqlite.close()


def test_the_same_examples_are_found_with_the_same_scores(both: tuple[Database, Database]) -> None:
    chance = random.Random(7)
    known = (
        "eastwick",
        "westwick",
        "zoe",
        "1e5x",
        "prerov",
        "слово",
        "日本",
        "snake",
        "14",
        "brien",
        "nowhere",
    )
    for _ in range(25):
        said = chance.sample((*known, *FILLING), chance.randint(1, 4))
        for tenant, scope in (("a1", "s1"), ("b2", "s2/ann")):
            ours, theirs = (
                dict(ExampleSearch(db).matching(tenant, scope, said, 200, within_s=30.0)) for db in both
            )
            assert ours == pytest.approx(theirs, rel=1e-9), said


def test_what_is_typed_finds_the_same(both: tuple[Database, Database]) -> None:
    for text in (
        *(
            "Zoë",
            "zoe",
            "ZOE ferry",
            '"the harbour"',
            "harb",
            "harb ",
            '"ferry" mayor',
            "1E5X",
            "1e",
            "snake_case",
        ),
        *(
            "слов",
            "Слово ",
            "日本",
            "3.14",
            "o'brien",
            "ferry nowhere",
            "pre",
            "\0",
            "'",
            "\\",
            "a:*",
            "!ferry | rain",
        ),
    ):
        ours, theirs = (
            sorted(e.id for e in ExampleSearch(db).with_words("a1", text, limit=1000).rows) for db in both
        )
        assert ours == theirs, text


def test_a_text_of_a_megabyte_of_words_is_kept_and_found_by_its_first(db: PostgresDatabase) -> None:
    bank = ExampleBank(db)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    many = " ".join(map("".join, itertools.islice(itertools.product(letters, repeat=4), 200_000)))
    for number, text in enumerate((many, "short " + "x" * 1_000_000, "\u65e5\u672c " * 50_000)):
        kept = bank.add(new_example(number, question=text, answer=text[:9], embedded_text="")).result(60)
        assert bank.by_ids("a1", [kept.id])[0].question == text
    search = ExampleSearch(db)
    assert len(search.with_words("a1", "aaab ").rows) == len(search.with_words("a1", "short").rows) == 1
    assert search.matching("a1", "scope", ["aaab", "x" * 3000, "\\", "'"], 10, within_s=30.0)
    assert search.with_words("a1", "x" * 5000).rows == ()


def test_a_search_that_takes_too_long_finds_nothing_and_leaves_the_next_one_alone(
    db: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = ExampleBank(db)
    kept = bank.add(new_example(1, question="population")).result(30)
    search = ExampleSearch(db)
    with monkeypatch.context() as patched:
        patched.setattr(words, "_MATCHING", "SELECT pg_sleep(20), :said, :tenant, :scope, :limit, :count")
        assert search.matching("a1", "scope", ["population"], 10) == []
    assert [id for id, _ in search.matching("a1", "scope", ["population"], 10, within_s=30.0)] == [kept.id]
    assert search.matching("a1", "scope", ["population"], 10, within_s=-1.0) == []
