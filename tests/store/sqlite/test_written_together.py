"""Rows that are written as one job: all of them, or all but those whose values are refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.database import Connection
from store.errors import StoreBusy, StoreClosed, ValueRefused
from store.sqlite.database import Database
from store.written_together import write_each


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    opened = Database.open(tmp_path / "understudy.db")
    opened.write(lambda connection: connection.execute("CREATE TABLE few (number INTEGER NOT NULL)")).result()
    yield opened
    opened.close()


def insert(connection: Connection, number: int | None) -> None:
    connection.execute("INSERT INTO few (number) VALUES (?)", (number,))


def numbers(db: Database) -> list[int]:
    return [number for (number,) in db.read().execute("SELECT number FROM few ORDER BY 1").fetchall()]


def test_all_are_written_when_it_is_done(db: Database) -> None:
    write_each(db, insert, [(1,), (2,)]).result(30)
    assert numbers(db) == [1, 2]
    write_each(db, insert, [(3,)], spare=True).result(30)
    assert numbers(db) == [1, 2, 3]


@pytest.mark.parametrize("wanted", [[(1,), (None,), (2,)], [(None,), (1,), (2,)], [(1,), (2,), (None,)]])
def test_a_refused_value_costs_the_others_nothing_and_is_told(
    db: Database, wanted: list[tuple[int | None]]
) -> None:
    with pytest.raises(ValueRefused):
        write_each(db, insert, wanted).result(30)
    assert numbers(db) == [1, 2]


def test_another_error_is_everyones(db: Database) -> None:
    def broken(connection: Connection, number: int) -> None:
        insert(connection, number)
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        write_each(db, broken, [(1,), (2,)]).result(30)
    assert numbers(db) == []


def test_a_store_that_is_closed_or_full_takes_nothing(tmp_path: Path, db: Database) -> None:
    full = Database.open(tmp_path / "full.db", max_pending=0)
    with pytest.raises(StoreBusy):
        write_each(full, insert, [(1,), (2,)])
    full.close()
    with pytest.raises(StoreClosed):
        write_each(full, insert, [(1,), (2,)])


def test_many_take_the_room_of_as_many(tmp_path: Path) -> None:
    holding, held = threading.Event(), threading.Event()
    db = Database.open(tmp_path / "small.db", max_pending=10)

    def hold(connection: Connection) -> None:
        connection.execute("CREATE TABLE few (number INTEGER NOT NULL)")
        held.set()
        holding.wait(30)

    first = db.write(hold)
    assert held.wait(30)
    texts = write_each(db, insert, [(n,) for n in range(9)], spare=True)
    rows = write_each(db, insert, [(n,) for n in range(9)])
    with pytest.raises(StoreBusy):
        texts.result(30)
    with pytest.raises(StoreBusy):
        write_each(db, insert, [(9,)])
    holding.set()
    first.result(30), rows.result(30)
    assert db.drain(30) and numbers(db) == list(range(9))
    db.close()
