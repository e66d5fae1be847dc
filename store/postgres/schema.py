"""Brings a PostgreSQL database to the schema this code knows, or refuses.

Its owner does so: `understudy store migrate`. The gateway's own role may only read and write rows, and checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import psycopg
from psycopg import errors, sql

from store.errors import SchemaError
from store.postgres.errors import in_words
from store.sqlite.schema import COPYING, number_of, numbered_files, refuse_newer, refuse_older

MIGRATIONS_FOLDER = Path(__file__).parent / "migrations"
OLDEST, NEWEST = 15, 18
_LOCK = 0x756E6465
"""Of the advisory lock that one migration at a time holds."""
_LOCK_TIMEOUT_MS = 20_000
"""Who waits for a table's lock keeps all others from it, gateways of the release before among them."""
_DONE = "SELECT name FROM schema_migrations ORDER BY name"
_BESIDE = "spatial_ref_sys"
"""PostGIS makes it in every database that is made with it."""
_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")


def migrate(connection: psycopg.Connection[Any], folder: Path = MIGRATIONS_FOLDER) -> list[str]:
    """Apply what is missing, all of it or nothing; gives the names of what was applied.

    Of several that start together one migrates, and the others find the work done. Raises DatabaseTooNew, and SchemaError:
    for a schema that is too old, another program's tables, a standby, missing rights, a release of PostgreSQL that is not
    supported, and naming the migration that failed.
    """
    refuse_unsuitable(connection)
    files = numbered_files(folder)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        connection.execute(f"SET LOCAL lock_timeout = {_LOCK_TIMEOUT_MS}")
        done = applied(connection)
        if done is None:
            _refuse_foreign(connection)
            _begin(connection)
        refuse_other(done or [], files)
        missing = _missing(done or [], files)
        for file in missing:
            try:
                for statement in statements(file.read_text(encoding="utf-8")):
                    connection.execute(statement.encode())
                connection.execute("INSERT INTO schema_migrations (name) VALUES (%s)", (file.stem,))
            except psycopg.Error as error:
                _failed(connection, f"migration {file.stem} failed", error)
    return [file.stem for file in missing]


def grant(connection: psycopg.Connection[Any], role: str) -> None:
    """Let a role read and write rows, now and of tables that later migrations make, and nothing more.

    To be called by the owner. Raises SchemaError where there is no such role, or where the rights are not ours to give.
    """
    name, schema = sql.Identifier(role), sql.Identifier(_schema(connection))
    database = sql.Identifier(connection.info.dbname)
    statements = [
        sql.SQL("GRANT CONNECT ON DATABASE {0} TO {1}").format(database, name),
        sql.SQL("GRANT USAGE ON SCHEMA {0} TO {1}").format(schema, name),
        sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {0} TO {1}").format(
            schema, name
        ),
        sql.SQL("REVOKE INSERT, UPDATE, DELETE ON schema_migrations FROM {0}").format(name),
        sql.SQL("GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {0} TO {1}").format(schema, name),
        sql.SQL(
            "ALTER DEFAULT PRIVILEGES IN SCHEMA {0} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {1}"
        ).format(schema, name),
        sql.SQL("ALTER DEFAULT PRIVILEGES IN SCHEMA {0} GRANT USAGE, SELECT ON SEQUENCES TO {1}").format(
            schema, name
        ),
    ]
    if connection.info.server_version >= 170_000:
        # What lets a role other than the owner VACUUM, which erasing does.
        statements.append(sql.SQL("GRANT MAINTAIN ON ALL TABLES IN SCHEMA {0} TO {1}").format(schema, name))
    with connection.transaction():
        for statement in statements:
            try:
                connection.execute(statement)
            except psycopg.Error as error:
                _failed(connection, f"the role {role} was given no rights", error)


def check(connection: psycopg.Connection[Any], folder: Path = MIGRATIONS_FOLDER) -> None:
    """Raise SchemaError where this code cannot work with the database, saying what to do; DatabaseTooNew for a later one.

    That is: without our schema, or with an older one, half copied, a standby, or without the rights.
    """
    refuse_unsuitable(connection)
    done = applied(connection)
    if done is None:
        _refuse_foreign(connection)
        raise SchemaError("the database has no schema yet: run `understudy store migrate` as its owner")
    files = numbered_files(folder)
    refuse_other(done, files)
    missing = [file.stem for file in _missing(done, files)]
    if missing:
        raise SchemaError(
            f"the database lacks {', '.join(missing)}: run `understudy store migrate` as its owner"
        )
    if _is_there(connection, COPYING):
        raise SchemaError(
            "the database is half a copy of another: end it with `understudy store copy --final`, or begin anew in an"
            " empty database"
        )
    _refuse_without_rights(connection)


def refuse_unsuitable(connection: psycopg.Connection[Any]) -> None:
    """Raise SchemaError for a release of PostgreSQL that is not supported, a standby, and an encoding other than UTF-8."""
    version = connection.info.server_version // 10_000
    if version < OLDEST:
        raise SchemaError(f"PostgreSQL {version} is not supported: {OLDEST} to {NEWEST} are")
    found = connection.execute(
        "SELECT pg_is_in_recovery(), current_setting('transaction_read_only'), current_setting('server_encoding')"
    ).fetchone()
    assert found is not None
    standby, read_only, encoding = found
    if standby:
        raise SchemaError("the server is a standby, which only reads: name the primary")
    if read_only == "on":
        raise SchemaError("the database may only be read (default_transaction_read_only is on for this role)")
    if encoding != "UTF8":
        raise SchemaError(f"the database is encoded in {encoding}: make one with ENCODING 'UTF8'")


def applied(connection: psycopg.Connection[Any]) -> list[str] | None:
    """The migrations that were applied, in order; None where there never was one.

    Raises SchemaError for another program's table of that name, and where it may not be read.
    """
    if not _is_there(connection, "schema_migrations"):
        return None
    try:
        return [name for (name,) in connection.execute(_DONE).fetchall()]
    except errors.UndefinedColumn as error:
        raise SchemaError(_FOREIGN) from error
    except errors.InsufficientPrivilege as error:
        raise SchemaError(_no_rights(connection)) from error


_FOREIGN = "the database holds another program's tables: name another database, or another schema"


def _is_there(connection: psycopg.Connection[Any], table: str) -> bool:
    found = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = %s)",
        (table,),
    ).fetchone()
    return found is not None and bool(found[0])


def _schema(connection: psycopg.Connection[Any]) -> str:
    found = connection.execute("SELECT current_schema()").fetchone()
    if found is None or found[0] is None:
        raise SchemaError(
            "none of the schemas in the role's search_path exists, or may be used: CREATE SCHEMA, or GRANT USAGE"
        )
    return str(found[0])


def _refuse_foreign(connection: psycopg.Connection[Any]) -> None:
    found = connection.execute(
        "SELECT count(*) FROM pg_tables WHERE schemaname = %s AND tablename <> %s",
        (_schema(connection), _BESIDE),
    ).fetchone()
    if found is not None and found[0]:
        raise SchemaError(_FOREIGN)


def _begin(connection: psycopg.Connection[Any]) -> None:
    try:
        connection.execute(
            'CREATE TABLE schema_migrations (name TEXT COLLATE "C" PRIMARY KEY, at TIMESTAMPTZ NOT NULL DEFAULT now())'
        )
    except psycopg.Error as error:
        _failed(connection, "no schema was made", error)


def refuse_other(done: list[str], files: list[Path]) -> None:
    """Raise DatabaseTooNew where a later release has changed the database, SchemaError where an earlier one made it.

    Not where a later one only added something, as its migration's name says (`..._adds`): the release before must go on
    working.
    """
    refuse_newer(max((number_of(name) for name in done if not name.endswith("_adds")), default=0), files)
    refuse_older(max(map(number_of, done), default=0), files)


def _missing(done: list[str], files: list[Path]) -> list[Path]:
    number = max(map(number_of, done), default=0)
    return [file for file in files if number_of(file.name) > number]


def _refuse_without_rights(connection: psycopg.Connection[Any]) -> None:
    found = connection.execute(
        "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND ("
        " relkind IN ('r', 'p') AND relname NOT IN ('schema_migrations', %s) AND NOT (SELECT"
        " bool_and(has_table_privilege(pg_class.oid, one)) FROM unnest(%s::text[]) AS one)"
        " OR relkind = 'S' AND NOT has_sequence_privilege(pg_class.oid, 'USAGE'))",
        (_BESIDE, list(_RIGHTS)),
    ).fetchone()
    if found is not None and found[0]:
        raise SchemaError(_no_rights(connection))


def _no_rights(connection: psycopg.Connection[Any]) -> str:
    role = connection.info.user
    return (
        f"the role {role} may not read and write every table: run `understudy store migrate --grant {role}` as the"
        " tables' owner"
    )


def _failed(connection: psycopg.Connection[Any], what: str, error: psycopg.Error) -> NoReturn:
    why = in_words(error)
    if isinstance(error, errors.InsufficientPrivilege):
        why += f"; {connection.info.user} is not the owner: run this as who may make tables here"
    if isinstance(error, errors.LockNotAvailable):
        why += f" within {_LOCK_TIMEOUT_MS // 1000} s; somebody holds a table: try again"
    raise SchemaError(f"{what}: {why}; nothing was changed") from error


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
