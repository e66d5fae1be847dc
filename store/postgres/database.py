"""PostgreSQL as the store's database: one connection that writes, a few that read, one that listens.

Knows nothing of what the tables mean.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Literal, TypeVar

import psycopg
import structlog

from store.database import Connection, Rows
from store.errors import StoreClosed
from store.inserting import Insert
from store.postgres.connecting import Fetched, Pool, connect
from store.postgres.errors import translated
from store.postgres.news import News
from store.postgres.room import shortage
from store.postgres.schema import check
from store.postgres.settled import Settled, Table
from store.postgres.words import PostgresWords
from store.postgres.writer import CHANNEL, JobConnection, Writer
from store.reading import Reads, refuse_on_loop

T = TypeVar("T")

log = structlog.get_logger(__name__)

_READERS = 4
"""Connections, beside the writer's and the listener's: six per process."""
_BESIDE_READERS = 2
_WRITE_TIMEOUT_MS = 60_000
_SILENT_S = 3.0
"""So long without news, which come twice a second, and something is wrong."""


class PostgresDatabase:
    """One database. Open it after forking: a connection must not cross a fork."""

    def __init__(self, pool: Pool, writer: Writer, news: News, reads: Reads) -> None:
        self._pool = pool
        self._reads = reads
        self._writer = writer
        self._news = news
        self._closed = False
        self._url = ""
        self._settled = Settled(lambda sql: self.read().execute(sql))
        news.on_lost(self._settled.forget)
        self.words = PostgresWords(self)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        listen_url: str = "",
        max_pending: int = 10_000,
        read_timeout_ms: int = 5_000,
        readers: int = _READERS,
        deadline_s: float = 0.05,
    ) -> PostgresDatabase:
        """Connect, and check the schema. `listen_url`: past a pooler, where `url` names one. `deadline_s`: longest wait
        of a request for what it reads.

        Raises BadAddress, SchemaError, DatabaseTooNew among them, and StoreFailed where there is no connection.
        """
        pooled = bool(listen_url) and listen_url != url
        try:
            with connect(url, statement_timeout_ms=read_timeout_ms, pooled=pooled) as first:
                check(first)
                short = None if pooled else shortage(first, readers + _BESIDE_READERS)
                if short is not None:
                    log.warning("store_short_of_connections", reason=short)
        except psycopg.Error as error:
            raise translated(error) from error
        pool = Pool(url, connections=readers, statement_timeout_ms=read_timeout_ms, pooled=pooled)
        try:
            news = News(partial(connect, listen_url or url, statement_timeout_ms=0), pool, CHANNEL)
            writer = Writer(
                partial(connect, url, statement_timeout_ms=_WRITE_TIMEOUT_MS, pooled=pooled),
                max_pending=max_pending,
                committed=news.committed,
                connected=news.connected,
            )
        except BaseException as error:
            pool.close()
            if isinstance(error, psycopg.Error):
                raise translated(error) from error
            raise
        made = cls(pool, writer, news, Reads(readers, deadline_s))
        made._url = url
        return made

    @property
    def pending(self) -> int:
        """Jobs handed over whose fate is not yet known."""
        return self._writer.pending

    @property
    def problem(self) -> str:
        """What keeps this process from writing; empty when nothing is known to."""
        if self._writer.problem:
            return self._writer.problem
        age_s = self._news.age_s()
        return f"PostgreSQL was not heard of for {age_s:.0f} s" if age_s > _SILENT_S else ""

    @property
    def reads(self) -> Reads:
        """On a few threads, one per connection."""
        return self._reads

    @property
    def closed(self) -> bool:
        """Whether `close` has been called."""
        return self._closed

    def write(
        self,
        job: Callable[[Connection], T],
        *,
        after: Callable[[T], None] | None = None,
        patient: bool = False,
        spare: bool = False,
        rows: int = 1,
    ) -> Future[T]:
        """See `store.database.Database`."""
        return self._writer.submit(job, after=after, patient=patient, spare=spare, rows=rows)

    def joined(self) -> AbstractContextManager[None]:
        """See `store.database.Database`."""
        return self._writer.joined()

    def read(self) -> Connection:
        """The pool: each statement is run on whichever connection is free."""
        if self._closed:
            raise StoreClosed("the store is closed: nothing more can be read")
        refuse_on_loop()
        return self._pool

    def read_within(self, within_s: float, sql: str, parameters: Any = ()) -> Fetched:
        """Run a statement as `read` does. Raises StoreFailed where the server has not done it in so many seconds."""
        self.read()
        return self._pool.execute_within(within_s, sql, parameters)

    def last_id(self, table: Literal["outcomes", "task_answers"]) -> int:
        """See `store.database.Database`."""
        return self._settled.up_to(table)

    def settled(self, table: Table) -> int:
        """See `store.database.Database`, and Settled."""
        return self._settled.up_to(table)

    def missing(self) -> str | None:
        """None: a database that is gone cannot be connected to, which reading and writing tell."""
        return None

    def data_version(self) -> int:
        """See `store.database.Database`. Moves twice a second, whatever happens."""
        if self._closed:
            raise StoreClosed("the store is closed: nothing more can be read")
        return self._news.version

    def counter(self, name: str) -> int:
        """As heard of last; at most half a second ago while the database can be reached."""
        return self._news.counter(name)

    def bump(self, connection: Connection, name: str) -> None:
        """Move a counter, when the batch of this job is committed."""
        assert isinstance(connection, JobConnection)
        connection.bumped.add(name)

    def locking(self, how: str) -> str:
        """See `store.database.Database`."""
        return " FOR SHARE" if how == "share" else " FOR UPDATE SKIP LOCKED"

    def tell(self, connection: Connection) -> None:
        """Have others hear of this job's batch at once."""
        assert isinstance(connection, JobConnection)
        connection.telling = True

    def hold(self, connection: Connection, name: str) -> None:
        """A lock of the transaction, which works behind a pooler, too."""
        assert isinstance(connection, JobConnection)
        if name not in connection.held:
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", (name,))
            connection.held.add(name)

    def add(
        self,
        connection: Connection,
        insert: Insert,
        key: tuple[str | int, ...],
        amounts: Sequence[float],
        only_if: Rows | None = None,
    ) -> None:
        """Have it done before the batch of this job is committed."""
        assert isinstance(connection, JobConnection)
        connection.add(insert, key, amounts, only_if)

    def append(self, connection: Connection, insert: Insert, row: Sequence[Any]) -> Rows:
        """See `store.database.Database`, and Appending."""
        assert isinstance(connection, JobConnection)
        return connection.append(insert, row)

    def settle(self, connection: Connection) -> None:
        """Do what was added so far."""
        assert isinstance(connection, JobConnection)
        connection.settle()

    def on_news(self, told: Callable[[], None]) -> None:
        """Call `told`, on another thread, whenever others may have committed."""
        self._news.on_news(told)

    def on_lost(self, told: Callable[[], None]) -> None:
        """Call `told`, on another thread, after a failover or a restore."""
        self._news.on_lost(told)

    def followed(self, seq: int) -> None:
        """See `store.database.Database`, and News."""
        self._news.followed(seq)

    def database_id(self) -> str:
        """32 hex characters, of the database, of the server and its timeline.

        A promoted standby may give places of the log out again that a snapshot of the index has seen.
        """
        row: tuple[str] = self.read().execute("SELECT database_id FROM installation").fetchone()
        server = self._news.server
        said = f"{row[0]} {server.system} {server.timeline}" if server else row[0]
        return hashlib.blake2b(said.encode(), digest_size=16).hexdigest()

    def scrub(self) -> Future[bool]:
        """False: deleted text stays in dead rows until VACUUM, in the write-ahead log, in backups."""
        return _settled(False)

    def scrub_soon(self) -> None:
        """Nothing: autovacuum does what can be done."""

    def erase(self) -> Future[bool]:
        """VACUUM the tables; False all the same, as the write-ahead log and backups keep what was deleted."""
        return self._writer.submit(_vacuum, alone=True)

    def sync(self) -> None:
        """Nothing: a commit that was acknowledged is on the primary's disk."""

    def connect(self, *, statement_timeout_ms: int) -> psycopg.Connection[Any]:
        """A connection of its own, for what takes long; to be closed by the caller. Raises StoreFailed, or StoreClosed."""
        if self._closed:
            raise StoreClosed("the store is closed: nothing more can be connected")
        try:
            return connect(self._url, statement_timeout_ms=statement_timeout_ms)
        except psycopg.Error as error:
            raise translated(error) from error

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything handed over is written; False if `timeout_s` seconds did not suffice."""
        return self._writer.drain(timeout_s)

    def close(self, timeout_s: float = 10.0) -> bool:
        """Write what waits, then close. True if everything was written within `timeout_s` seconds."""
        if self._closed:
            return True
        self._closed = True
        self._reads.close()
        written = self._writer.close(timeout_s)
        self._news.stop()
        self._pool.close()
        return written


def _settled(value: bool) -> Future[bool]:
    future: Future[bool] = Future()
    future.set_result(value)
    return future


def _vacuum(connection: psycopg.Connection[Any]) -> bool:
    connection.execute("VACUUM")
    return False
