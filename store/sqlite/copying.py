"""Copies of a database that is in use, and what such a copy says of itself."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from store.errors import SchemaError
from store.sqlite.schema import (
    MIGRATIONS_FOLDER,
    numbered_files,
    refuse_foreign,
    refuse_newer,
    refuse_older,
    schema_number,
)
from store.sqlite.translation import translating

_BUSY_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Copied:
    """A database file that nobody has open."""

    schema: int
    """The number of its schema: which releases can open it."""


def copy_database(source: Path, target: Path) -> Copied:
    """Copy the state of this moment into a new file, whoever reads or writes meanwhile. Blocks.

    In one step, by SQLite's backup interface (https://www.sqlite.org/backup.html): of a database in WAL mode that reads one
    snapshot and keeps nobody from writing. Raises SchemaError where the source is no database of ours, StoreFailed.
    """
    with translating(), closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as read:
        read.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
        refuse_foreign(read)
        with closing(sqlite3.connect(target)) as written:
            read.backup(written, pages=-1)
            # As a single file: without a write-ahead log beside it.
            written.execute("PRAGMA journal_mode = DELETE").fetchall()
            return Copied(schema_number(written))


def checked_copy(path: Path, migrations: Path = MIGRATIONS_FOLDER) -> Copied:
    """What a copy says of itself. Reads all of it.

    Raises SchemaError where it is damaged, another program's or too old, DatabaseTooNew where a later release wrote it,
    StoreFailed.
    """
    with translating(), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as read:
        refuse_foreign(read)
        said = [line for (line,) in read.execute("PRAGMA quick_check(1)")]
        if said != ["ok"]:
            raise SchemaError(f"the database is damaged: {said[0]}")
        number = schema_number(read)
    refuse_other(number, migrations)
    return Copied(number)


def refuse_other(number: int, migrations: Path = MIGRATIONS_FOLDER) -> None:
    """Raise DatabaseTooNew or SchemaError for a schema's number that this release does not read."""
    files = numbered_files(migrations)
    refuse_newer(number, files)
    refuse_older(number, files)
