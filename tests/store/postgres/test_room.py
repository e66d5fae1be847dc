"""Connections against what the server, the role and the database allow, and their limits of time."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

from benchmarks.postgres_server import PostgresServer
from store import Store
from store.postgres.connecting import connect
from store.postgres.room import shortage


def test_a_server_with_room_lacks_nothing(postgres_url: str) -> None:
    with connect(postgres_url, statement_timeout_ms=0) as connection:
        assert shortage(connection, 6) is None
        told = shortage(connection, 10_000)
    assert told is not None and told.startswith("max_connections") and "this process takes 10000" in told


def test_limits_of_role_and_database_count(postgres_url: str, postgres_server: PostgresServer) -> None:
    with connect(postgres_url, statement_timeout_ms=0) as connection:
        connection.execute("CREATE ROLE few LOGIN PASSWORD 'few' CONNECTION LIMIT 5")
        try:
            few = postgres_url.replace(f"understudy:{postgres_server.password}", "few:few")
            with connect(few, statement_timeout_ms=0) as other:
                assert shortage(other, 5) is None
                assert "role's CONNECTION LIMIT is 5: 0 are in use" in str(shortage(other, 6))
        finally:
            connection.execute("DROP ROLE few")
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 3")
        assert "database's CONNECTION LIMIT is 3" in str(shortage(connection, 6))


def test_a_gateway_that_may_run_out_of_connections_says_so_and_starts(
    postgres_url: str, tmp_path: Path
) -> None:
    with connect(postgres_url, statement_timeout_ms=0) as connection:
        # Of no weight to a superuser, as here.
        connection.execute(f"ALTER DATABASE {connection.info.dbname} CONNECTION LIMIT 4")
    with structlog.testing.capture_logs() as lines:
        Store.open(tmp_path, database_url=postgres_url).close()
    (line,) = [line for line in lines if line["event"] == "store_short_of_connections"]
    assert line["log_level"] == "warning" and "takes 6" in line["reason"]


def test_statements_and_transactions_have_limits_of_time(postgres_url: str) -> None:
    with connect(postgres_url, statement_timeout_ms=5_000) as connection:
        names = ["statement_timeout", "idle_in_transaction_session_timeout", "transaction_timeout"]
        shown = [connection.execute(f"SHOW {name}").fetchone() for name in names]
    assert shown == [("5s",), ("10s",), ("10s",)]


def test_behind_a_pooler_nothing_is_set_that_the_next_client_of_the_connection_would_have(
    postgres_url: str,
) -> None:
    with connect(postgres_url, statement_timeout_ms=5_000, pooled=True) as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("0",)
