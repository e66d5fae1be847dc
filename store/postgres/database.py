"""PostgreSQL as the store's database: one connection that writes, a few that read, one that listens.

Knows nothing of what the tables mean.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

import psycopg

from store.database import Connection
from store.errors import StoreClosed
from store.postgres.connecting import Pool, connect
from store.postgres.errors import translated
from store.postgres.news import News
from store.postgres.schema import check
from store.postgres.words import PostgresWords
from store.postgres.writer import CHANNEL, JobConnection, Writer

T = TypeVar("T")

_READERS = 4
"""Connections, beside the writer's and the listener's: six per process."""
_WRITE_TIMEOUT_MS = 60_000


class PostgresDatabase:
    """One database. Open it after forking: a connection must not cross a fork."""

    def __init__(self, pool: Pool, writer: Writer, news: News) -> None:
        self._pool = pool
        self._writer = writer
        self._news = news
        self._closed = False
        self._url = ""
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
    ) -> PostgresDatabase:
        """Connect, and check the schema. `listen_url`: past a pooler, where `url` names one.

        Raises SchemaError, DatabaseTooNew among them, and StoreFailed where there is no connection.
        """
        try:
            with connect(url, statement_timeout_ms=read_timeout_ms) as first:
                check(first)
        except psycopg.Error as error:
            raise translated(error) from error
        pool = Pool(url, connections=readers, statement_timeout_ms=read_timeout_ms)
        try:
            news = News(partial(connect, listen_url or url, statement_timeout_ms=0), pool, CHANNEL)
            writer = Writer(
                partial(connect, url, statement_timeout_ms=_WRITE_TIMEOUT_MS),
                max_pending=max_pending,
                committed=news.committed,
            )
        except BaseException as error:
            pool.close()
            if isinstance(error, psycopg.Error):
                raise translated(error) from error
            raise
        made = cls(pool, writer, news)
        made._url = url
        return made

    @property
    def pending(self) -> int:
        """Jobs handed over whose fate is not yet known."""
        return self._writer.pending

    @property
    def problem(self) -> str:
        """What keeps this process from writing; empty when nothing is known to."""
        return self._writer.problem

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
    ) -> Future[T]:
        """See `store.database.Database`."""
        return self._writer.submit(job, after=after, patient=patient)

    def read(self) -> Connection:
        """The pool: each statement is run on whichever connection is free."""
        if self._closed:
            raise StoreClosed("the store is closed: nothing more can be read")
        return self._pool

    def last_id(self, table: str) -> int:
        """The id of the last row that ever was in a table, or was to be: one that was undone counts."""
        query = "SELECT last_value FROM pg_sequences WHERE sequencename = ? AND schemaname = current_schema()"
        row = self.read().execute(query, (f"{table}_id_seq",)).fetchone()
        return 0 if row is None or row[0] is None else int(row[0])

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

    def tell(self, connection: Connection) -> None:
        """Have others hear of this job's batch at once."""
        assert isinstance(connection, JobConnection)
        connection.telling = True

    def on_news(self, told: Callable[[], None]) -> None:
        """Call `told`, on another thread, whenever others may have committed."""
        self._news.on_news(told)

    def news_age_s(self) -> float:
        """How long ago other processes' commits were last heard of."""
        return self._news.age_s()

    def database_id(self) -> str:
        """32 hex characters drawn when the database was made."""
        row: tuple[str] = self.read().execute("SELECT database_id FROM installation").fetchone()
        return row[0]

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
