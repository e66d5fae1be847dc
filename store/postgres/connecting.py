"""Connections to PostgreSQL as the store needs them, and the pool that reads."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg_pool import ConnectionPool, PoolTimeout

from store.postgres.adapting import adapt
from store.postgres.address import checked
from store.postgres.errors import is_lost, translating
from store.postgres.statements import arguments, translated

# It quotes values of rows where a statement is refused. What is wrong with a connection the writer and the listener log.
logging.getLogger("psycopg").setLevel(logging.CRITICAL)

_CONNECT_TIMEOUT_S = 5
_HAS_TRANSACTION_TIMEOUT = 170_000
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


_ANSWER_AFTER_S = 5.0
"""How much longer than a statement may take an answer is waited for: the limit itself is the server's to hold."""
_RECONNECT_S = 2.0
"""The pool tries so long by itself, with longer and longer pauses; after that whenever somebody reads."""
_WHILE_AWAY_S = 0.1

T = TypeVar("T")


class NoAnswer(psycopg.OperationalError):
    """A server, or what stands before it, that stands still."""


class TimedConnection(psycopg.Connection[Any]):
    """A connection that is given up where no answer comes.

    The limits of TCP do not suffice: a kernel acknowledges for a server, or a pooler, that stands still.
    """

    answer_within_s: float | None = None

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """As psycopg's. Raises psycopg.OperationalError after `answer_within_s`; the connection is then closed."""
        if timeout is not None or self.answer_within_s is None:
            return super().wait(gen, interval, timeout)
        until_s = time.monotonic() + self.answer_within_s
        try:
            return super().wait(gen, interval, self.answer_within_s)
        except psycopg.OperationalError as error:
            if time.monotonic() < until_s:
                raise
            # Its answer may still come, and would be taken for another statement's.
            self.pgconn.finish()
            raise NoAnswer(f"no answer from PostgreSQL within {self.answer_within_s:g} s") from error


@dataclass(frozen=True, slots=True)
class Place:
    """Where commits go: another one after a failover or a restore."""

    system: str
    timeline: str


def place_of(connection: psycopg.Connection[Any]) -> Place:
    """The server's. Raises psycopg.OperationalError on a standby, which cannot be written to."""
    row = connection.execute(
        "SELECT pg_is_in_recovery(), (SELECT system_identifier::text FROM pg_control_system())"
    ).fetchone()
    assert row is not None
    if row[0]:
        raise psycopg.errors.ReadOnlySqlTransaction("the server is a standby")
    timeline = connection.execute("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)").fetchone()
    assert timeline is not None
    return Place(row[1], timeline[0])


def connect(url: str, *, statement_timeout_ms: int, pooled: bool = False) -> psycopg.Connection[Any]:
    """Open one connection, in autocommit. `pooled`: see `prepare`. Raises BadAddress, and psycopg.OperationalError."""
    connection = TimedConnection.connect(
        checked(url),
        autocommit=True,
        connect_timeout=_CONNECT_TIMEOUT_S,
        tcp_user_timeout=_USER_TIMEOUT_MS,
        application_name="understudy",
        **_KEEPALIVE,
    )
    prepare(connection, statement_timeout_ms, pooled=pooled)
    return connection


def prepare(connection: psycopg.Connection[Any], statement_timeout_ms: int, *, pooled: bool = False) -> None:
    """Give a new connection its adapters and limits of time, in one round trip. 0: statements take as long as they take.

    `pooled`: a pooler is between, and may hand the server's connection to anybody after each transaction. What would be
    set here would hold for others, so the server's limits are the role's.
    """
    adapt(connection)
    if statement_timeout_ms and isinstance(connection, TimedConnection):
        connection.answer_within_s = statement_timeout_ms / 1000 + _ANSWER_AFTER_S
    if pooled:
        return
    limits = {
        "statement_timeout": statement_timeout_ms,
        "idle_in_transaction_session_timeout": _IDLE_IN_TRANSACTION_MS,
    }
    if connection.info.server_version >= _HAS_TRANSACTION_TIMEOUT:
        limits["transaction_timeout"] = 2 * statement_timeout_ms
    said = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in limits.items())
    connection.execute(f"SELECT {said}")


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

    def __init__(
        self, url: str, *, connections: int, statement_timeout_ms: int, pooled: bool = False
    ) -> None:
        self._connections = connections
        self._away = False
        """Whether no connection could be had lately: then nobody waits for one."""
        self._pool: ConnectionPool[TimedConnection] = ConnectionPool(
            checked(url),
            connection_class=TimedConnection,
            min_size=1,
            max_size=connections,
            max_idle=_MAX_IDLE_S,
            timeout=statement_timeout_ms / 1000,
            reconnect_timeout=_RECONNECT_S,
            configure=lambda connection: prepare(connection, statement_timeout_ms, pooled=pooled),
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
                return self._run(translated(sql), arguments(sql, parameters))
            except PoolTimeout:
                self._away = True
                raise

    def _run(self, sql: str, parameters: Any) -> Fetched:
        """Again where a connection turns out to be dead: each may be, after a restart of the server."""
        for left in range(self._connections, -1, -1):
            try:
                # Not `connection()`, which commits: in autocommit nothing is to be committed.
                connection = self._pool.getconn(_WHILE_AWAY_S if self._away else None)
                try:
                    cursor = connection.cursor(binary=True)
                    cursor.execute(sql, parameters)
                    self._away = False
                    # Not `cursor.description`, which describes each column first.
                    gives_rows = cursor.pgresult is not None and cursor.pgresult.nfields
                    return Fetched(cursor.fetchall() if gives_rows else [], cursor.rowcount)
                finally:
                    self._pool.putconn(connection)
            except psycopg.OperationalError as error:
                if (
                    isinstance(error, (PoolTimeout, NoAnswer))
                    or not left
                    or not (is_lost(error) and connection.closed)
                ):
                    raise
        raise AssertionError("unreachable")

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Fetched:
        """For writing only."""
        raise NotImplementedError("reading runs one statement at a time")

    def execute_within(self, within_s: float, sql: str, parameters: Any = (), /) -> Fetched:
        """`execute`, given up after so long by the server, in one round trip."""
        limit = f"SET LOCAL statement_timeout = {max(1, round(1000 * within_s))}"
        with translating(), self._pool.connection() as connection, connection.cursor(binary=True) as cursor:
            with connection.pipeline(), connection.transaction():
                connection.execute(limit)
                cursor.execute(translated(sql), arguments(sql, parameters))
            return Fetched(cursor.fetchall(), cursor.rowcount)

    def close(self) -> None:
        """Close every connection."""
        self._pool.close(timeout=1.0)
