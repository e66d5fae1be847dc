"""Brings a database file to the schema this code knows, or refuses. Knows files of SQL, and nothing of what they mean."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from store.errors import DatabaseTooNew, SchemaError

MIGRATIONS_FOLDER = Path(__file__).parent / "migrations"
COPYING = "copying"
"""The table that a database has while another is copied into it (store.moving). Nobody serves such a database."""
_MIGRATION_SET = "understudy"
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
    # In this order: whoever sees tables of ours sees the migrations that made them.
    if tables and not applied_migrations(connection):
        raise SchemaError(
            "the database is another program's: name another data folder, or move the file away to begin anew"
        )


def migrate(connection: sqlite3.Connection, folder: Path = MIGRATIONS_FOLDER) -> None:
    """Apply what is missing, all of it or nothing.

    Everything happens inside one write transaction: of several processes that start together one migrates
    and the others find the work done, and a migration that fails leaves the file as it was.

    Raises DatabaseTooNew, and SchemaError: for a database that has lost a table, and naming the migration that failed with
    SQLite's reason.
    """
    files = numbered_files(folder)
    if applied_migrations(connection) == [file.stem for file in files]:
        _refuse_incomplete(connection, files)
        return

    # The import costs 230 ms, which only the first start after an upgrade has to pay.
    import sqlite_utils
    from sqlite_utils.migrations import Migrations

    migrations = Migrations(_MIGRATION_SET)
    for file in files:
        migrations(name=file.stem)(_runs(file))

    # Whether SQLite brings a logarithm depends on how it was built.
    connection.create_function("ln", 1, math.log, deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    try:
        wrapped = sqlite_utils.Database(connection, recursive_triggers=False, execute_plugins=False)
        unknown = {applied.name for applied in migrations.applied(wrapped)} - {file.stem for file in files}
        if unknown:
            raise DatabaseTooNew(
                f"the database has migrations that this version does not know ({', '.join(sorted(unknown))}): "
                "it was written by a later version; run that one, or restore a copy from before the upgrade"
            )
        migrations.apply(wrapped)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def applied_migrations(connection: sqlite3.Connection) -> list[str]:
    """Their names, in order."""
    try:
        rows = connection.execute(
            "SELECT name FROM _sqlite_migrations WHERE migration_set = ? ORDER BY name", (_MIGRATION_SET,)
        ).fetchall()
    except sqlite3.OperationalError:
        return []
    return [name for (name,) in rows]


def _tables(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
        " AND name <> '_sqlite_migrations'"
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
    """The migrations of a folder, in order: 0001_*.sql, 0002_*.sql and so on; a number may be left out.

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


def _runs(file: Path) -> Callable[..., None]:
    def run(database: object) -> None:
        connection: sqlite3.Connection = database.conn  # type: ignore[attr-defined]
        for statement in statements(file.read_text(encoding="utf-8")):
            try:
                connection.execute(statement)
            except sqlite3.Error as error:
                first_line = statement.strip().splitlines()[0]
                raise SchemaError(
                    f"migration {file.stem} failed at {first_line!r}: {error}; nothing was changed"
                ) from error

    return run


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
