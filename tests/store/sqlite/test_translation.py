from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from store.errors import StoreClosed, StoreError, StoreFailed, ValueRefused
from store.sqlite.database import Database
from store.sqlite.translation import translating


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (sqlite3.IntegrityError("CHECK constraint failed"), ValueRefused),
        (sqlite3.OperationalError("disk I/O error"), StoreFailed),
        (sqlite3.DatabaseError("file is not a database"), StoreFailed),
        (sqlite3.ProgrammingError("Cannot operate on a closed database."), StoreClosed),
        (sqlite3.ProgrammingError("Incorrect number of bindings supplied"), StoreFailed),
    ],
)
def test_each_error_of_sqlite_becomes_one_of_the_store_s_and_stays_as_its_cause(
    error: sqlite3.Error, expected: type[StoreError]
) -> None:
    with pytest.raises(expected) as raised, translating():
        raise error
    assert raised.type is expected
    assert raised.value.__cause__ is error


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="full"), translating():
        raise OSError("full")


def test_executing_and_fetching_both_raise_the_store_s_errors(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "a.db")
    with pytest.raises(StoreFailed, match="no such table"):
        db.read().execute("SELECT 1 FROM nowhere")
    # The first row is made when the statement is executed; what fails is making the second.
    second_fails = "SELECT CASE n WHEN 2 THEN abs(-9223372036854775807 - 1) ELSE n END FROM (SELECT 1 n UNION ALL SELECT 2)"
    for fetch in (
        lambda cursor: cursor.fetchall(),
        list,
        lambda cursor: [cursor.fetchone(), cursor.fetchone()],
    ):
        cursor = db.read().execute(second_fails)
        with pytest.raises(StoreFailed, match="overflow") as raised:
            fetch(cursor)
        assert isinstance(raised.value.__cause__, sqlite3.Error)
    db.close()
