"""Every table of both databases says by which rule its rows end and whose they are, and forgetting a tenant reaches them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from learning.bank.forgetting import Forgetter
from store import Store
from store.errors import StoreError
from store.held import _OF_CONTRIBUTORS
from store.moving.tables import OF_SQLITE, WORDS_TRIGGERS
from store.tables import TABLES, WHOSE, Whose
from tests.store.postgres.test_schema import connected

GONE = "forgotten"
OWNERS: dict[Whose, str] = {
    "tenant": GONE,
    "contributor": "key_1/user",
    "end_user": "user",
    "key_id": "key_1",
}


def of_sqlite(connection: sqlite3.Connection) -> dict[str, dict[str, str]]:
    """Columns with their types, by table."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {
        name: {column: kind for _, column, kind, *_ in connection.execute(f"PRAGMA table_info({name})")}
        for (name,) in names
        if not OF_SQLITE.fullmatch(name)
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Store.open(tmp_path).close()
    return tmp_path / "understudy.db"


def test_every_table_is_declared_with_whose_it_is(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        there = of_sqlite(connection)
    assert there.keys() == TABLES.keys()
    for name, columns in there.items():
        assert set(TABLES[name].whose) == set(WHOSE) & columns.keys(), name
        assert TABLES[name].ends
        if TABLES[name].ends.startswith("with ") and TABLES[name].ends[5:].isidentifier():
            assert TABLES[name].ends[5:] in TABLES, name


def test_every_table_of_postgresql_is_declared_too(postgres_url: str) -> None:
    with connected(postgres_url) as connection:
        rows = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns c JOIN information_schema.tables t"
            " USING (table_schema, table_name) WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'"
        ).fetchall()
    names = {table for table, _ in rows} - {"schema_migrations"}
    assert {name for name in names if not OF_SQLITE.fullmatch(name)} == TABLES.keys()
    for table, column in rows:
        assert column not in WHOSE or table not in TABLES or column in TABLES[table].whose, (table, column)


@pytest.fixture
def filled(path: Path) -> Path:
    """The file, with a row in each table with a tenant's column, whatever else stands in it."""
    filler = {"INTEGER": 1000, "REAL": 1.0, "TEXT": "x", "BLOB": b"x"}
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        tables = of_sqlite(connection)
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("PRAGMA foreign_keys = OFF")
        triggers = [one for one in triggers if not WORDS_TRIGGERS.fullmatch(one[0])]
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for name, columns in tables.items():
            if "tenant" in columns:
                row = {column: filler[kind] for column, kind in columns.items()} | {
                    name: value for name, value in OWNERS.items() if name in columns
                }
                marks = ", ".join("?" * len(row))
                listed = ", ".join(f'"{column}"' for column in row)
                connection.execute(f"INSERT INTO {name} ({listed}) VALUES ({marks})", tuple(row.values()))
        for _, sql in triggers:
            connection.execute(sql)
    return path


def left(path: Path, whose: Whose) -> set[str]:
    """Tables with rows of the owner."""
    with closing(sqlite3.connect(path)) as connection:
        return {
            name
            for name, kept in TABLES.items()
            if whose in kept.whose
            and connection.execute(f"SELECT 1 FROM {name} WHERE {whose} = ?", (OWNERS[whose],)).fetchone()
        }


def test_forgetting_a_tenant_leaves_none_of_its_rows(filled: Path) -> None:
    with closing(Store.open(filled.parent)) as store:
        store.forget_tenant(GONE)
    assert {name for name in left(filled, "tenant") if not TABLES[name].outlives} == set()


def test_forgetting_a_key_leaves_no_row_of_it(filled: Path) -> None:
    with closing(Store.open(filled.parent)) as store:
        Forgetter(store).contributor(GONE, key_id=OWNERS["key_id"])
    for whose in ("contributor", "end_user", "key_id"):
        # A key's older secret ends by its time; without the key it opens nothing.
        assert left(filled, whose) - {"older_secrets"} == set(), whose


def test_a_statement_of_what_is_left_of_a_contributor_counts_every_table_of_theirs() -> None:
    counted = {table for tables in _OF_CONTRIBUTORS.values() for table in tables}
    # Steps are counted with their runs.
    theirs = {name for name, kept in TABLES.items() if "contributor" in kept.whose} - {"workflow_steps"}
    assert theirs <= counted


def test_a_deletion_that_fails_midway_deletes_nothing(filled: Path) -> None:
    with closing(sqlite3.connect(filled, isolation_level=None)) as connection:
        before = {whose: left(filled, whose) for whose in WHOSE}
        connection.execute(
            "CREATE TRIGGER no BEFORE DELETE ON kept_responses BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
        with closing(Store.open(filled.parent)) as store:
            with pytest.raises(StoreError):
                store.forget_tenant(GONE)
            with pytest.raises(StoreError):
                Forgetter(store).contributor(GONE, key_id=OWNERS["key_id"])
        connection.execute("DROP TRIGGER no")
    assert {whose: left(filled, whose) for whose in WHOSE} == before
