"""Connections to PostgreSQL as the store needs them, and the pool that reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from store.errors import StoreClosed, StoreFailed
from store.postgres.adapting import adapt
from store.postgres.errors import translating
from store.postgres.statements import arguments, translated

_CONNECT_TIMEOUT_S = 5
_USER_TIMEOUT_MS = 5_000
"""After so long without an acknowledgement a connection counts as dead, and not after the kernel's quarter of an hour."""
_KEEPALIVE: dict[str, Any] = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}
_IDLE_IN_TRANSACTION_MS = 10_000
"""A process that was stopped in the midst of a transaction holds up for so long whoever takes over its leases."""
_MAX_IDLE_S = 300.0


def connect(url: str, *, statement_timeout_ms: int) -> psycopg.Connection[Any]:
    """Open one connection, in autocommit. Raises psycopg.OperationalError."""
    connection: psycopg.Connection[Any] = psycopg.connect(
        url,
        autocommit=True,
        connect_timeout=_CONNECT_TIMEOUT_S,
        tcp_user_timeout=_USER_TIMEOUT_MS,
        application_name="understudy",
        **_KEEPALIVE,
    )
    prepare(connection, statement_timeout_ms)
    return connection


def prepare(connection: psycopg.Connection[Any], statement_timeout_ms: int) -> None:
    """Give a new connection its adapters and limits of time."""
    adapt(connection)
    connection.execute(f"SET statement_timeout = {statement_timeout_ms}")
    connection.execute(f"SET idle_in_transaction_session_timeout = {_IDLE_IN_TRANSACTION_MS}")


@dataclass(slots=True)
class Fetched:
    """Rows that were all fetched."""

    rows: list[Any]
    rowcount: int
    _next: int = 0

    def fetchone(self) -> Any:
        """The next row; None when there is none left."""
        if self._next >= len(self.rows):
            return None
        self._next += 1
        return self.rows[self._next - 1]

    def fetchall(self) -> list[Any]:
        """All rows that are left."""
        left, self._next = self.rows[self._next :], len(self.rows)
        return left

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fetchall())


class Pool:
    """Reads, each statement on whichever connection is free. Safe to use from any thread."""

    def __init__(self, url: str, *, connections: int, statement_timeout_ms: int) -> None:
        self._timeout_s = statement_timeout_ms / 1000
        self._pool: ConnectionPool[psycopg.Connection[Any]] = ConnectionPool(
            url,
            min_size=1,
            max_size=connections,
            max_idle=_MAX_IDLE_S,
            timeout=self._timeout_s,
            configure=lambda connection: prepare(connection, statement_timeout_ms),
            kwargs={
                "autocommit": True,
                "connect_timeout": _CONNECT_TIMEOUT_S,
                "tcp_user_timeout": _USER_TIMEOUT_MS,
                "application_name": "understudy",
                **_KEEPALIVE,
            },
            open=True,
            name="understudy",
        )

    def execute(self, sql: str, parameters: Any = (), /) -> Fetched:
        """Run a statement, and fetch what it gives. Raises StoreFailed, or StoreClosed."""
        with translating():
            try:
                with self._pool.connection() as connection, connection.cursor(binary=True) as cursor:
                    cursor.execute(translated(sql), arguments(sql, parameters))
                    return Fetched(cursor.fetchall() if cursor.description else [], cursor.rowcount)
            except PoolClosed as error:
                raise StoreClosed("the store is closed: nothing more can be read") from error
            except PoolTimeout as error:
                raise StoreFailed(f"no connection to PostgreSQL within {self._timeout_s:g} s") from error

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Fetched:
        """For writing only."""
        raise NotImplementedError("reading runs one statement at a time")

    def close(self) -> None:
        """Close every connection."""
        self._pool.close(timeout=1.0)
