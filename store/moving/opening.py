"""Opens the two databases of a copy, and brings one to this release's schema: what the command line asks of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from store.errors import SchemaError, StoreFailed
from store.moving.postgres_side import PostgresSide
from store.moving.side import Side, Target
from store.moving.sqlite_side import SqliteSide
from store.moving.tables import Table, tables
from store.postgres.connecting import connect
from store.postgres.errors import translating
from store.postgres.schema import grant, migrate
from store.postgres.vectors import make_graphs, prepare, unavailable


def is_url(place: str) -> bool:
    """Whether a place is a PostgreSQL database, and not a folder."""
    return place.startswith(("postgresql://", "postgres://"))


def migrated(url: str, roles: tuple[str, ...] = (), *, vectors: bool = False) -> list[str]:
    """Bring a database to this release's schema, and let roles read and write its rows; gives what was applied.

    `vectors`: also what pgvector needs, and its graphs, which only the tables' owner may make. Waits for whoever does the
    same. Raises SchemaError (DatabaseTooNew among them), and StoreFailed without a connection.
    """
    with _connecting(), translating(), connect(url, statement_timeout_ms=0) as connection:
        if vectors and (problem := unavailable(connection)):
            raise SchemaError(problem)
        applied = migrate(connection)
        if vectors:
            if problem := prepare(connection):
                raise SchemaError(problem)
            make_graphs(connection)
        for role in roles:
            grant(connection, role)
        return applied


@contextmanager
def opened(source: str, target: str, *, into: bool) -> Iterator[tuple[Side, Target, list[Table]]]:
    """Both databases, one a folder and one a URL, and what is copied. `into`: the target may be half a copy.

    Raises SchemaError, StoreFailed, and OSError; ValueError for two of a kind.
    """
    if is_url(source) == is_url(target):
        raise ValueError("one place is a data folder, the other a postgresql:// URL")
    with ExitStack() as stack:
        if is_url(source):
            read = _postgres(stack, source, into=False)
            written = _sqlite(stack, target, make=into)
            yield read, written, _checked(written, read)
        else:
            read_file = _sqlite(stack, source, make=False)
            written_to = _postgres(stack, target, into=into)
            yield read_file, written_to, _checked(read_file, written_to)


def _sqlite(stack: ExitStack, folder: str, *, make: bool) -> SqliteSide:
    side = SqliteSide(Path(folder), make=make)
    stack.callback(side.close)
    return side


def _postgres(stack: ExitStack, url: str, *, into: bool) -> PostgresSide:
    with _connecting():
        side = PostgresSide(url, into=into)
    stack.callback(side.close)
    return side


def _checked(file: SqliteSide, server: PostgresSide) -> list[Table]:
    """What is copied. Raises SchemaError where the two have not the same tables."""
    found = tables(file.connection)
    lacking = [table.name for table in found if server.lacks(table)]
    if lacking:
        raise SchemaError(f"{server.name} lacks columns of {', '.join(lacking)}")
    return found


@contextmanager
def _connecting() -> Iterator[None]:
    """Say why there is no connection; libpq's words hold hosts, users and files, never a password."""
    try:
        yield
    except StoreFailed as error:
        cause = error.__cause__
        if isinstance(cause, psycopg.OperationalError) and cause.sqlstate is None:
            raise StoreFailed(f"{error}: {' '.join(str(cause).split())}") from cause
        raise
