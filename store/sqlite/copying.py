"""Copies of a database that is in use, and what such a copy says of itself."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from store.errors import DatabaseTooNew, SchemaError
from store.sqlite.schema import MIGRATIONS_FOLDER, applied_migrations, numbered_files, refuse_foreign
from store.sqlite.translation import translating

_BUSY_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Copied:
    """A database file that nobody has open."""

    migrations: tuple[str, ...]
    """Their names, in order: which releases can open it."""


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
            return Copied(tuple(applied_migrations(written)))


def checked_copy(path: Path, migrations: Path = MIGRATIONS_FOLDER) -> Copied:
    """What a copy says of itself. Reads all of it.

    Raises SchemaError where it is damaged or another program's, DatabaseTooNew where a later release wrote it, StoreFailed.
    """
    with translating(), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as read:
        refuse_foreign(read)
        said = [line for (line,) in read.execute("PRAGMA quick_check(1)")]
        if said != ["ok"]:
            raise SchemaError(f"the database is damaged: {said[0]}")
        applied = applied_migrations(read)
    refuse_newer(applied, migrations)
    return Copied(tuple(applied))


def refuse_newer(applied: list[str] | tuple[str, ...], migrations: Path = MIGRATIONS_FOLDER) -> None:
    """Raise DatabaseTooNew where some are none of this release's."""
    unknown = sorted(set(applied) - {file.stem for file in numbered_files(migrations)})
    if unknown:
        raise DatabaseTooNew(
            f"it has migrations that this release does not know ({', '.join(unknown)}): a later release wrote it"
        )
