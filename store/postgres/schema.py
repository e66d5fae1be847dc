"""Brings a PostgreSQL database to the schema this code knows, or refuses.

Its owner does so: `understudy store migrate`. The gateway's own role may only read and write rows, and checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from store.errors import DatabaseTooNew, SchemaError
from store.postgres.errors import in_words
from store.sqlite.schema import numbered_files

MIGRATIONS_FOLDER = Path(__file__).parent / "migrations"
OLDEST, NEWEST = 15, 18
_LOCK = 0x756E6465
"""Of the advisory lock that one migration at a time holds."""
_DONE = "SELECT name FROM schema_migrations ORDER BY name"


def migrate(connection: psycopg.Connection[Any], folder: Path = MIGRATIONS_FOLDER) -> list[str]:
    """Apply what is missing, all of it or nothing; gives the names of what was applied.

    Raises DatabaseTooNew, and SchemaError: for another program's tables, for a release of PostgreSQL that is not
    supported, and naming the migration that failed.
    """
    version = connection.info.server_version // 10_000
    if version < OLDEST:
        raise SchemaError(f"PostgreSQL {version} is not supported: {OLDEST} to {NEWEST} are")
    files = numbered_files(folder)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        done = applied(connection)
        if done is None:
            _refuse_foreign(connection)
            connection.execute(
                'CREATE TABLE schema_migrations (name TEXT COLLATE "C" PRIMARY KEY, at TIMESTAMPTZ NOT NULL DEFAULT now())'
            )
        _refuse_newer(done or [], files)
        missing = [file for file in files if file.stem not in (done or [])]
        for file in missing:
            try:
                for statement in statements(file.read_text(encoding="utf-8")):
                    connection.execute(statement.encode())
            except psycopg.Error as error:
                raise SchemaError(
                    f"migration {file.stem} failed: {in_words(error)}; nothing was changed"
                ) from error
            connection.execute("INSERT INTO schema_migrations (name) VALUES (%s)", (file.stem,))
    return [file.stem for file in missing]


def check(connection: psycopg.Connection[Any], folder: Path = MIGRATIONS_FOLDER) -> None:
    """Raise SchemaError where the database has not this code's schema, saying what to do; DatabaseTooNew for a later one."""
    done = applied(connection)
    if done is None:
        raise SchemaError("the database has no schema yet: run `understudy store migrate` as its owner")
    files = numbered_files(folder)
    _refuse_newer(done, files)
    missing = [file.stem for file in files if file.stem not in done]
    if missing:
        raise SchemaError(
            f"the database lacks {', '.join(missing)}: run `understudy store migrate` as its owner"
        )


def applied(connection: psycopg.Connection[Any]) -> list[str] | None:
    """The migrations that were applied, in order; None where there never was one."""
    found = connection.execute("SELECT to_regclass('schema_migrations')").fetchone()
    if found is None or found[0] is None:
        return None
    return [name for (name,) in connection.execute(_DONE).fetchall()]


def _refuse_foreign(connection: psycopg.Connection[Any]) -> None:
    found = connection.execute(
        "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename <> 'spatial_ref_sys'"
    ).fetchone()
    if found is not None and found[0]:
        raise SchemaError(
            "the database holds another program's tables: name another database, or another schema"
        )


def _refuse_newer(done: list[str], files: list[Path]) -> None:
    """A later release's additions do no harm to this one's rows: the release before must go on working. Gaps do."""
    known = {file.stem for file in files}
    unknown = [name for name in done if name not in known and not name.endswith("_adds")]
    if unknown:
        raise DatabaseTooNew(
            f"the database has migrations that this version does not know ({', '.join(unknown)}): it was written by a"
            " later version; run that one"
        )


def statements(script: str) -> Iterator[str]:
    """Split a script into single statements, at the semicolon that ends a line, outside of `$$`."""
    statement, inside = "", False
    for line in script.splitlines(keepends=True):
        if not statement and (not line.strip() or line.lstrip().startswith("--")):
            continue
        statement += line
        inside ^= line.count("$$") % 2 == 1
        if not inside and line.rstrip().endswith(";"):
            yield statement
            statement = ""
    if statement.strip():
        raise SchemaError(f"unfinished statement at the end of a migration: {statement.strip()[:80]!r}")
