"""Brings a database file to the schema this code knows, or refuses. Knows files of SQL, and nothing of what they mean.

A schema has a number: of the folder's last file. The first file makes the whole schema of its number, and each one after
it changes that of the number before. A database file says its own number in SQLite's `user_version`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from store.errors import DatabaseTooNew, SchemaError

MIGRATIONS_FOLDER = Path(__file__).parent / "migrations"
COPYING = "copying"
"""The table that a database has while another is copied into it (store.moving). Nobody serves such a database."""
LAST_VERSION_BEFORE = "0.1.0 with schema 112"
"""The last version of this program that brings a database older than the first file to that file's number."""
APPLICATION_ID = 0x756E6465
"""SQLite's `application_id` of our files: other programs use `user_version`, too."""
_FORMER_TABLE = "_sqlite_migrations"
"""Where files named their schema before it had a number."""
_TABLE = re.compile(r"^(CREATE TABLE|CREATE VIRTUAL TABLE|DROP TABLE) (\w+)", re.MULTILINE)
_NUMBERED = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")


def refuse_foreign(connection: sqlite3.Connection) -> None:
    """Raise SchemaError for a file that holds another program's tables, or half a copy. To be asked before any change."""
    tables = _tables(connection)
    if COPYING in tables:
        raise SchemaError(
            "the database is half a copy of another: end it with `understudy store copy --final`, or begin anew in an"
            " empty folder"
        )
    # In this order: whoever sees tables of ours sees their number, too.
    if tables and not schema_number(connection):
        raise SchemaError(
            "the database is another program's: name another data folder, or move the file away to begin anew"
        )


def migrate(connection: sqlite3.Connection, folder: Path = MIGRATIONS_FOLDER) -> None:
    """Apply what is missing, all of it or nothing.

    Everything happens inside one write transaction: of several processes that start together one migrates
    and the others find the work done, and a migration that fails leaves the file as it was.

    Raises DatabaseTooNew, and SchemaError: for a database that is too old or has lost a table, and naming the migration that
    failed with SQLite's reason.
    """
    files = numbered_files(folder)
    newest = number_of(files[-1].name)
    if _stamped_number(connection) == newest:
        _refuse_incomplete(connection, files)
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        number = schema_number(connection)
        refuse_newer(number, files)
        refuse_older(number, files)
        for file in files:
            if number_of(file.name) > number:
                _run(connection, file)
        _refuse_incomplete(connection, files)
        connection.execute(f"DROP TABLE IF EXISTS {_FORMER_TABLE}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {newest}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def schema_number(connection: sqlite3.Connection) -> int:
    """The number of a file's schema; 0 for a file without a schema of ours."""
    return _stamped_number(connection) or _former_number(connection)


def _stamped_number(connection: sqlite3.Connection) -> int:
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    if application_id != APPLICATION_ID:
        return 0
    number: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return number


def _former_number(connection: sqlite3.Connection) -> int:
    try:
        (name,) = connection.execute(
            f"SELECT max(name) FROM {_FORMER_TABLE} WHERE migration_set = 'understudy'"  # noqa: S608 - a constant
        ).fetchone()
    except sqlite3.OperationalError:
        return 0
    return 0 if name is None else number_of(name)


def number_of(name: str) -> int:
    """The number in a migration's name."""
    return int(name[:4])


def refuse_newer(number: int, files: list[Path]) -> None:
    """Raise DatabaseTooNew for a schema that a later version made."""
    newest = number_of(files[-1].name)
    if number > newest:
        raise DatabaseTooNew(
            f"the database has schema {number}, and this version knows {newest}: it was written by a later version;"
            " run that one, or restore a copy from before the upgrade"
        )


def refuse_older(number: int, files: list[Path]) -> None:
    """Raise SchemaError for a schema from before the first file, saying how it is taken along."""
    oldest = number_of(files[0].name)
    if 0 < number < oldest:
        raise SchemaError(
            f"the database has schema {number}, and this version reads {oldest} and later: the last version that reads"
            f" it is {LAST_VERSION_BEFORE}. Run that one on it once, or take along with `understudy import` what its"
            " `understudy export` writes"
        )


def _tables(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
        " AND name <> ?",
        (_FORMER_TABLE,),
    )
    return {name for (name,) in rows.fetchall()}


def _refuse_incomplete(connection: sqlite3.Connection, files: Iterable[Path]) -> None:
    expected: set[str] = set()
    for file in files:
        for verb, name in _TABLE.findall(file.read_text(encoding="utf-8")):
            (expected.add if verb.startswith("CREATE") else expected.discard)(name)
    missing = expected - _tables(connection)
    if missing:
        raise SchemaError(
            f"the database has lost {', '.join(sorted(missing))}: restore it from a copy of the data folder,"
            " or move it away to begin anew"
        )


def numbered_files(folder: Path) -> list[Path]:
    """The migrations of a folder in the order of their numbers, of which some may be left out.

    Raises SchemaError for a name out of order, a number used twice, or no migrations at all.
    """
    files = sorted(folder.glob("*.sql"))
    numbers: dict[str, str] = {}
    for file in files:
        found = _NUMBERED.fullmatch(file.name)
        if found is None:
            raise SchemaError(f"migration {file.name!r} should be called NNNN_<what_it_does>.sql")
        if found[1] in numbers:
            raise SchemaError(f"migrations {numbers[found[1]]!r} and {file.name!r} have the same number")
        numbers[found[1]] = file.name
    if not files:
        raise SchemaError(f"no migrations in {folder}: the installation is incomplete")
    return files


def _run(connection: sqlite3.Connection, file: Path) -> None:
    for statement in statements(file.read_text(encoding="utf-8")):
        try:
            connection.execute(statement)
        except sqlite3.Error as error:
            first_line = statement.strip().splitlines()[0]
            raise SchemaError(
                f"migration {file.stem} failed at {first_line!r}: {error}; nothing was changed"
            ) from error


def statements(script: str) -> Iterator[str]:
    """Split a script into single statements. `executescript` would commit the transaction we roll back on failure."""
    statement = ""
    for line in script.splitlines(keepends=True):
        if not statement and (not line.strip() or line.lstrip().startswith("--")):
            continue
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        raise SchemaError(f"unfinished statement at the end of a migration: {statement.strip()[:80]!r}")
