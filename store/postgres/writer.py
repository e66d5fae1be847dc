"""The one thread of a process that writes to PostgreSQL: a batch is one transaction, its statements sent without waiting.

A savepoint for every job would cost a round trip each. So there is none: where something fails, the batch is undone and
halved, until the job that cannot be written stands alone.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import psycopg
import structlog

from store.errors import StoreFailed
from store.postgres.errors import in_words, is_lost, may_succeed_again, translated
from store.postgres.statements import arguments, is_reading
from store.postgres.statements import translated as as_postgres
from store.writing import Item, WritingThread, fail, succeed

log = structlog.get_logger(__name__)

CHANNEL = "understudy"
_TRIES = 6
_PAUSE_S = 0.02
_VERDICT_WITHIN_S = 10.0


class _Lazy:
    """Rows that are fetched when somebody asks: until then the next statements are sent without waiting."""

    __slots__ = ("_cursor", "_sync")

    def __init__(self, cursor: psycopg.Cursor[Any], sync: Callable[[], None]) -> None:
        self._cursor = cursor
        self._sync = sync

    @property
    def rowcount(self) -> int:
        self._sync()
        return self._cursor.rowcount

    def fetchone(self) -> Any:
        return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        return self._cursor.fetchall()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cursor.fetchall())


class _Many:
    """What `executemany` gave."""

    __slots__ = ("_cursors", "_sync")

    def __init__(self, cursors: list[psycopg.Cursor[Any]], sync: Callable[[], None]) -> None:
        self._cursors = cursors
        self._sync = sync

    @property
    def rowcount(self) -> int:
        self._sync()
        return sum(max(0, cursor.rowcount) for cursor in self._cursors)

    def fetchone(self) -> Any:
        return None

    def fetchall(self) -> list[Any]:
        return []

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class JobConnection:
    """The writer's connection as a job sees it. Where a transaction ends is not a job's business."""

    def __init__(self, connection: psycopg.Connection[Any], pipeline: psycopg.Pipeline) -> None:
        self._connection = connection
        self._pipeline = pipeline
        self.statements = 0
        """That change something, of this batch so far."""
        self.telling = False
        """Whether others are to be told of this batch."""
        self.bumped: set[str] = set()

    def execute(self, sql: str, parameters: Any = (), /) -> _Lazy:
        """Send a statement. Its error, or an earlier one's, comes at once or whenever something is fetched."""
        self.statements += not is_reading(sql)
        return _Lazy(self._send(sql, parameters), self._pipeline.sync)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> _Many:
        """Send a statement once for each of many parameters."""
        self.statements += 1
        return _Many([self._send(sql, one) for one in parameters], self._pipeline.sync)

    def _send(self, sql: str, parameters: Any) -> psycopg.Cursor[Any]:
        cursor = self._connection.cursor(binary=True)
        try:
            return cursor.execute(as_postgres(sql), arguments(sql, parameters))
        except psycopg.Error as error:
            raise translated(error) from error


class _Undone(Exception):
    """A batch was undone: because of the job at this place, where that is known."""

    def __init__(self, place: int | None, error: BaseException) -> None:
        super().__init__()
        self.place = place
        self.error = error


class Writer(WritingThread):
    """Owns the writing connection, which it opens again when it is lost, and its thread."""

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        *,
        max_pending: int,
        committed: Callable[[frozenset[str]], None],
    ) -> None:
        """`committed` is called after a commit, with the names of the counters that it moved."""
        super().__init__(max_pending=max_pending)
        self._connect = connect
        self._connection: psycopg.Connection[Any] | None = connect()
        self._committed = committed
        self._down_since_s: float | None = None
        self.start()

    # ---- below here everything runs on the writer's thread

    def _close_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _note(self, error: BaseException) -> None:
        if not isinstance(error, (psycopg.Error, StoreFailed)):
            return
        reason = in_words(error) if isinstance(error, psycopg.Error) else str(error)
        if reason != self._problem:
            log.error("store_cannot_write", reason=reason)
        self._problem = reason

    def _write_batch(self, batch: list[Item]) -> None:
        if batch[0].alone:
            self._write_alone(batch[0])
            return
        self._write_these([item for item in batch if item.future.set_running_or_notify_cancel()])

    def _write_alone(self, item: Item) -> None:
        """Outside any transaction."""
        if not item.future.set_running_or_notify_cancel():
            return
        try:
            succeed(item, item.job(self._connected()))
        except BaseException as error:
            fail(item.future, translated(error) if isinstance(error, psycopg.Error) else error)

    def _write_these(self, items: list[Item]) -> None:
        waiting = [items]
        while waiting:
            some = waiting.pop()
            if not some:
                continue
            try:
                done = self._attempted(some)
            except _Undone as undone:
                if len(some) == 1:
                    self._note_refusal(undone.error)
                    fail(some[0].future, _as_ours(undone.error))
                    continue
                place = undone.place
                if place is None:
                    half = len(some) // 2
                    waiting += [some[half:], some[:half]]
                else:
                    waiting += [some[place + 1 :], [some[place]], some[:place]]
            except BaseException as error:
                self._note(error)
                for item in some:
                    fail(item.future, _as_ours(error))
            else:
                for item, result in done:
                    succeed(item, result)

    def _note_refusal(self, error: BaseException) -> None:
        cause = error if isinstance(error, psycopg.Error) else error.__cause__
        if isinstance(cause, psycopg.Error) and not isinstance(
            cause, (psycopg.IntegrityError, psycopg.DataError)
        ):
            self._note(cause)

    def _attempted(self, items: list[Item]) -> list[tuple[Item, Any]]:
        """Write a batch, again where it met a deadlock or a lost connection."""
        for tried in range(_TRIES):
            try:
                return self._written(items)
            except _Undone as undone:
                if not may_succeed_again(undone.error) or tried == _TRIES - 1:
                    raise
            except psycopg.OperationalError as error:
                self._lose()
                if tried == _TRIES - 1:
                    raise
                self._note(error)
            time.sleep(_PAUSE_S * 2**tried * random.uniform(0.5, 1.5))
        raise AssertionError("unreachable")

    def _written(self, items: list[Item]) -> list[tuple[Item, Any]]:
        connection = self._connected()
        results: list[tuple[Item, Any]] = []
        failures: list[tuple[Item, BaseException]] = []
        place: int | None = None
        xid: str | None = None
        try:
            with connection.pipeline() as pipeline:
                connection.execute("BEGIN")
                seen = JobConnection(connection, pipeline)
                for at, item in enumerate(items):
                    place = at
                    before = seen.statements
                    try:
                        results.append((item, item.job(seen)))
                    except psycopg.Error:
                        raise
                    except Exception as error:
                        if isinstance(error.__cause__, psycopg.Error) or seen.statements > before:
                            raise
                        # Nothing was sent that would have to be undone.
                        failures.append((item, error))
                place = None
                for name in sorted(seen.bumped):
                    connection.execute("UPDATE generations SET value = value + 1 WHERE name = %s", (name,))
                if seen.telling or seen.bumped:
                    connection.execute(f"NOTIFY {CHANNEL}")
                asked = connection.execute("SELECT pg_current_xact_id_if_assigned()::text")
                row = asked.fetchone()
                xid = row[0] if row is not None else None
        except BaseException as error:
            if is_lost(error) or connection.closed:
                raise psycopg.OperationalError(in_words(error)) from error
            self._roll_back(connection)
            # The statements of several jobs are on their way at once: an error of the database may be an earlier one's.
            raise _Undone(None if _is_ours(error) else place, error) from error
        self._commit(connection, xid)
        if self._problem:
            self._problem = ""
            log.info("store_can_write")
        self._committed(frozenset(seen.bumped))
        for item, job_error in failures:
            fail(item.future, _as_ours(job_error))
        return results

    def _commit(self, connection: psycopg.Connection[Any], xid: str | None) -> None:
        try:
            connection.execute("COMMIT")
        except psycopg.Error as error:
            self._lose()
            if xid is None:
                return
            if not self._was_committed(xid, error):
                raise psycopg.OperationalError("the connection was lost before the commit") from error

    def _was_committed(self, xid: str, why: psycopg.Error) -> bool:
        """What became of a COMMIT without an answer. Raises StoreFailed where nobody can tell."""
        until_s = time.monotonic() + _VERDICT_WITHIN_S
        while time.monotonic() < until_s:
            try:
                row = self._connected().execute("SELECT pg_xact_status(%s::xid8)", (xid,)).fetchone()
            except psycopg.Error:
                self._lose()
            else:
                if row is not None and row[0] in ("committed", "aborted"):
                    return bool(row[0] == "committed")
            time.sleep(_PAUSE_S * 5)
        raise StoreFailed("the connection was lost at the commit: whether it was done is not known") from why

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = None
            self._connection = self._connect()
        return self._connection

    def _lose(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _roll_back(self, connection: psycopg.Connection[Any]) -> None:
        try:
            connection.execute("ROLLBACK")
        except psycopg.Error as error:
            log.error("store_rollback_failed", error=in_words(error))
            self._lose()


def _is_ours(error: BaseException) -> bool:
    """Whether it is the database's error."""
    return isinstance(error, psycopg.Error) or isinstance(error.__cause__, psycopg.Error)


def _as_ours(error: BaseException) -> BaseException:
    return translated(error) if isinstance(error, psycopg.Error) else error
