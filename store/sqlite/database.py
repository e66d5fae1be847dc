"""SQLite in WAL mode: one writer thread, a read-only connection per reading thread, migrations at opening.

Several processes may have the same file open. Knows nothing of what the tables mean.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar, cast

from store.database import Connection, Rows
from store.errors import SchemaError, StoreBusy, StoreClosed
from store.inserting import Insert
from store.reading import INLINE, Reads
from store.sqlite.power_cut import sync_log
from store.sqlite.schema import MIGRATIONS_FOLDER, migrate, refuse_foreign
from store.sqlite.translation import ReadingConnection, translating
from store.sqlite.wal_index import wal_header
from store.sqlite.words import SqliteWords
from store.sqlite.writer import Writer, WritingConnection

T = TypeVar("T")

_BUSY_TIMEOUT_MS = 30_000
"""Longer than another process's VACUUM of a large file should take."""
_SCRUB_TIMEOUT_MS = 1_000
_OPENING_TIMEOUT_MS = 60_000
_SWITCH_AGAIN_S = 0.01
_WAL_LIMIT_BYTES = 64 * 1024 * 1024
_EVERY_ID = 2**63 - 1


class Database:
    """One SQLite file. Open it after forking, never before: a connection must not cross a fork."""

    def __init__(self, path: Path, writer: Writer, watch: sqlite3.Connection) -> None:
        self.path = path
        self._writer = writer
        self._watch = watch
        self._wal_header: memoryview | None = None
        self._wal_header_sought = False
        self._watch_lock = threading.Lock()
        self._mine = threading.local()
        self._readers: list[tuple[weakref.ref[threading.Thread], sqlite3.Connection]] = []
        self._readers_lock = threading.Lock()
        self._scrub_asked = threading.Lock()
        self._closed = False
        self.words = SqliteWords(self)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        durable: bool = False,
        max_pending: int = 10_000,
        migrations: Path = MIGRATIONS_FOLDER,
    ) -> Database:
        """Open, creating and migrating as needed.

        `durable` makes every commit survive a power cut (synchronous=FULL). Without it a killed process loses
        nothing either, but a power cut may lose the last commits; the file stays intact in both cases.
        `max_pending` bounds the jobs that may wait to be written.

        Raises SchemaError (DatabaseTooNew among them), StoreFailed if the file is not a database, and OSError if the
        folder cannot be made.
        """
        path = path.absolute()
        path.parent.mkdir(parents=True, exist_ok=True)
        with translating():
            return cls._opened(path, durable=durable, max_pending=max_pending, migrations=migrations)

    @classmethod
    def _opened(cls, path: Path, *, durable: bool, max_pending: int, migrations: Path) -> Database:
        _prepare(path, migrations)
        connection = sqlite3.connect(
            path,
            isolation_level=None,
            check_same_thread=False,
            factory=WritingConnection,
            cached_statements=256,
        )
        try:
            connection.create_function("now_s", 0, _now_s)
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
            watch = _open_to_read(path)
        except BaseException:
            connection.close()
            raise
        return cls(path, Writer(connection, max_pending=max_pending), watch)

    @property
    def pending(self) -> int:
        """Jobs handed over whose fate is not yet known."""
        return self._writer.pending

    @property
    def problem(self) -> str:
        """What keeps this process from writing; empty when nothing is known to."""
        return self._writer.problem

    @property
    def reads(self) -> Reads:
        """Inline: a read takes microseconds."""
        return INLINE

    @property
    def closed(self) -> bool:
        """Whether `close` has been called."""
        return self._closed

    def write(
        self,
        job: Callable[[sqlite3.Connection], T],
        *,
        after: Callable[[T], None] | None = None,
        patient: bool = False,
        spare: bool = False,
        rows: int = 1,
    ) -> Future[T]:
        """Run `job` on the writer's thread; the future resolves after the COMMIT, so a result is a promise kept.

        A job that raises is undone alone and its exception is the future's. A job may be run a second time when
        a batch had to be given up, so it must have no effect but the one on the connection. It must not commit.
        `after` is called with the result, on the writer's thread, after the commit and before the future resolves.
        `patient`: nobody waits for it, so it may wait a twentieth of a second for others. `rows`: for as many jobs it
        counts.

        Raises StoreBusy when too many jobs wait already, StoreClosed after `close`. Never waits.
        """
        return self._writer.submit(job, after=after, patient=patient, spare=spare, rows=rows)

    def joined(self) -> AbstractContextManager[None]:
        """See `store.writing.WritingThread.joined`."""
        return self._writer.joined()

    def read(self) -> sqlite3.Connection:
        """This thread's own read-only connection. Fetch all rows at once: an open cursor holds up checkpoints."""
        connection: sqlite3.Connection | None = getattr(self._mine, "connection", None)
        if connection is not None and not self._closed:
            return connection
        with self._readers_lock:
            if self._closed:
                self._close_mine()
                raise StoreClosed("the store is closed: nothing more can be read")
            alive = []
            for thread, reader in self._readers:
                if thread() is None:
                    reader.close()
                else:
                    alive.append((thread, reader))
            connection = _open_to_read(self.path)
            alive.append((weakref.ref(threading.current_thread()), connection))
            self._readers = alive
        self._mine.connection = connection
        return connection

    def _close_mine(self) -> None:
        connection: sqlite3.Connection | None = getattr(self._mine, "connection", None)
        if connection is not None:
            connection.close()

    def data_version(self) -> bytes | int:
        """A value that differs from the last one seen whenever anyone, in any process, has committed since.

        Costs a microsecond, and means nothing outside this object.
        """
        with self._watch_lock:
            if self._closed:
                raise StoreClosed("the store is closed: nothing more can be read")
            if self._wal_header is not None:
                return self._wal_header.tobytes()
            row: tuple[int] = self._watch.execute("PRAGMA data_version").fetchone()
            if self._wal_header_sought:
                return row[0]
            # The index is mapped by now, and stays so while this connection is open.
            self._wal_header, self._wal_header_sought = wal_header(self.path), True
            return row[0] if self._wal_header is None else self._wal_header.tobytes()

    def counter(self, name: str) -> int:
        """A row of the table `generations`."""
        row: tuple[int] = (
            self.read().execute("SELECT value FROM generations WHERE name = ?", (name,)).fetchone()
        )
        return row[0]

    def bump(self, connection: Connection, name: str) -> None:
        """Move such a counter, inside a write job."""
        connection.execute("UPDATE generations SET value = value + 1 WHERE name = ?", (name,))

    def locking(self, how: str) -> str:
        """Nothing: one transaction writes at a time."""
        return ""

    def tell(self, connection: Connection) -> None:
        """Nothing: who wants to know looks at `data_version`."""

    def hold(self, connection: Connection, name: str) -> None:
        """Nothing: only one process writes at a time."""

    def add(
        self,
        connection: Connection,
        insert: Insert,
        key: tuple[str | int, ...],
        amounts: Sequence[float],
        only_if: Rows | None = None,
    ) -> None:
        """See store.sqlite.writer.WritingConnection."""
        assert isinstance(connection, WritingConnection)
        connection.add(insert, key, amounts, only_if)

    def append(self, connection: Connection, insert: Insert, row: Sequence[Any]) -> Rows:
        """See store.sqlite.writer.WritingConnection."""
        assert isinstance(connection, WritingConnection)
        return cast(Rows, connection.append(insert, row))

    def settle(self, connection: Connection) -> None:
        """Nothing: every statement writes first what was added before it."""

    def on_news(self, told: Callable[[], None]) -> None:
        """Nothing: see `tell`."""

    def on_lost(self, told: Callable[[], None]) -> None:
        """Nothing: what was committed to the file stays there."""

    def followed(self, seq: int) -> None:
        """Nothing: see `on_lost`."""

    def settled(self, table: str) -> int:
        """Everything: ids are given out in the order of commits."""
        return _EVERY_ID

    def last_id(self, table: str) -> int:
        """The id of the last row that ever was in a table."""
        row = self.read().execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        return 0 if row is None else int(row[0])

    def missing(self) -> str | None:
        """What of the database is gone."""
        return (
            None
            if self.path.exists()
            else f"the store's file {self.path.name} is gone: restore the data folder"
        )

    def sync(self) -> None:
        """See `sync_log`."""
        sync_log(self.path)

    def database_id(self) -> str:
        """32 hex characters drawn when the file was made."""
        row: tuple[str] = self.read().execute("SELECT database_id FROM installation").fetchone()
        return row[0]

    def scrub(self) -> Future[bool]:
        """Empty the write-ahead log into the file: rows deleted before are then overwritten in both.

        True when done; False when a reader in some process was still looking at the old state: ask again.
        A page that was rearranged while a row was alive may hold a second copy of it, which this does not reach:
        see `erase`.
        """
        return self._writer.submit(_scrub, alone=True)

    def erase(self) -> Future[bool]:
        """Write the whole file anew without anything that was deleted, then `scrub`. True when nothing is left.

        Takes seconds per gigabyte, during which every process's writes wait.
        """
        return self._writer.submit(_erase, alone=True)

    def scrub_soon(self) -> None:
        """Have `scrub` done after what waits already; many calls make one. For the writer's own thread and others."""
        if self._scrub_asked.acquire(blocking=False):
            try:
                self._writer.submit(self._scrub_as_asked, alone=True)
            except (StoreBusy, StoreClosed):
                self._scrub_asked.release()

    def _scrub_as_asked(self, connection: sqlite3.Connection) -> bool:
        self._scrub_asked.release()
        return _scrub(connection)

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything handed over is written; False if `timeout_s` seconds did not suffice."""
        return self._writer.drain(timeout_s)

    def close(self, timeout_s: float = 10.0) -> bool:
        """Write what waits, then close. True if everything was written within `timeout_s` seconds.

        Another thread that still reads finishes its query; its next `read` raises StoreClosed.
        """
        with self._readers_lock:
            if self._closed:
                return True
            self._closed = True
        written = self._writer.close(timeout_s)
        with self._readers_lock:
            self._close_mine()
            # Closing a connection while its thread is inside a query crashes the process, so each thread closes its own.
            self._readers = []
        with self._watch_lock:
            self._wal_header = None
            self._watch.close()
        return written


def _prepare(path: Path, migrations: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute(f"PRAGMA busy_timeout = {_OPENING_TIMEOUT_MS}")
        refuse_foreign(connection)
        if _switch_to_wal(connection) != "wal":
            raise SchemaError(f"{path} cannot use a write-ahead log: keep the data folder on a local disk")
        migrate(connection, migrations)
    finally:
        connection.close()


def _switch_to_wal(connection: sqlite3.Connection) -> str:
    """Ask for the write-ahead log; returns the journal mode that came of it."""
    end = time.monotonic() + _OPENING_TIMEOUT_MS / 1000
    while True:
        try:
            mode: str = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            return mode
        except sqlite3.OperationalError as error:
            # Of two that switch a new file at the same moment, SQLite refuses one at once, whatever its busy timeout:
            # each holds a read lock, which the other's switch waits for.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(_SWITCH_AGAIN_S)


def _now_s() -> float:
    """The database's clock is its machine's. PostgreSQL's schema has a function of this name."""
    return time.clock_gettime(time.CLOCK_REALTIME)


def _open_to_read(path: Path) -> sqlite3.Connection:
    with translating():
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode=ro",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            factory=ReadingConnection,
            cached_statements=256,
        )
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
    connection.create_function("now_s", 0, _now_s)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _scrub(connection: sqlite3.Connection) -> bool:
    connection.execute(f"PRAGMA busy_timeout = {_SCRUB_TIMEOUT_MS}")
    try:
        busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    finally:
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
    return busy == 0


def _erase(connection: sqlite3.Connection) -> bool:
    connection.execute("VACUUM")
    return _scrub(connection)
