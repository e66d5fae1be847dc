from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.blobs import PART_BYTES, RowBlobs
from store.database import Database
from store.sqlite.database import Database as SqliteDatabase


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    database: Database
    if request.param == "sqlite":
        database = SqliteDatabase.open(tmp_path / "understudy.db")
    else:
        url = request.getfixturevalue("postgres_url")
        from store.postgres.database import PostgresDatabase

        database = PostgresDatabase.open(url)
    yield database
    database.close()


@pytest.mark.parametrize("length", [0, 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES])
def test_a_file_of_any_length_comes_back_as_it_was(db: Database, length: int) -> None:
    blobs = RowBlobs(db)
    data = (bytes(range(256)) * (length // 256 + 1))[:length]
    blobs.put("a/b", data)
    assert blobs.get("a/b") == data
    (parts, longest) = db.read().execute("SELECT count(*), max(length(bytes)) FROM blobs").fetchone()
    assert longest <= PART_BYTES and parts == max(1, -(-length // PART_BYTES))


def test_a_shorter_file_leaves_nothing_of_a_longer_one(db: Database) -> None:
    blobs = RowBlobs(db)
    blobs.put("a", bytes(2 * PART_BYTES + 5))
    blobs.put("a", bytearray(b"short"))
    assert blobs.get("a") == b"short"
    assert db.read().execute("SELECT count(*) FROM blobs").fetchone()[0] == 1


def test_names_are_found_by_their_beginning_and_removed_one_by_one(db: Database) -> None:
    blobs = RowBlobs(db)
    for name in ("x/1", "x/2", "y/1", "x%", "X/1"):
        blobs.put(name, name.encode())
    assert sorted(blobs.names("x/")) == ["x/1", "x/2"] and len(blobs.names("")) == 5
    blobs.remove(["x/1", "missing"])
    blobs.remove([])
    assert blobs.get("x/1") is None and blobs.get("x/2") == b"x/2"
