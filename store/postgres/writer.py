"""The one thread of a process that writes to PostgreSQL: a batch is one transaction, its statements sent without waiting.

A savepoint for every job would cost a round trip each. So there is none: where something fails, the batch is undone and
written again without the job that cannot be, which then stands alone. docs/explanation/storage.md, "Two databases".
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import psycopg
import structlog

from store.database import Rows
from store.errors import StoreFailed
from store.inserting import Insert
from store.postgres.appending import Appended, Appending, NoRows, many_rows
from store.postgres.connecting import Place, place_of
from store.postgres.errors import in_words, is_lost, may_succeed_again, translated, translating
from store.postgres.statements import arguments, is_reading
from store.postgres.statements import translated as as_postgres
from store.writing import Item, WritingThread, fail, succeed

log = structlog.get_logger(__name__)

CHANNEL = "understudy"
_AGAIN_WITHIN_S = 30.0
"""How long a batch that meets deadlocks is written again."""
_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0
_JITTER = random.Random()
"""Its own: this thread must not draw from what others may have seeded."""
_VERDICT_WITHIN_S = 10.0
_SEVERAL = -1
"""The place of a statement that several jobs asked for together."""


class _Lazy:
    """Rows that are fetched when somebody asks: until then the next statements are sent without waiting."""

    __slots__ = ("_cursor", "_sync")

    def __init__(self, cursor: psycopg.Cursor[Any], sync: Callable[[], None]) -> None:
        self._cursor = cursor
        self._sync = sync

    @property
    def rowcount(self) -> int:
        with translating():
            if self._cursor.pgresult is None:
                self._sync()
            return self._cursor.rowcount

    def fetchone(self) -> Any:
        with translating():
            return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        with translating():
            return self._cursor.fetchall()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fetchall())


class _Many(NoRows):
    """What `executemany` gave."""

    __slots__ = ("_cursors", "_sync")

    def __init__(self, cursors: list[psycopg.Cursor[Any]], sync: Callable[[], None]) -> None:
        self._cursors = cursors
        self._sync = sync

    @property
    def rowcount(self) -> int:
        with translating():
            if self._cursors and self._cursors[-1].pgresult is None:
                self._sync()
        return sum(max(0, cursor.rowcount) for cursor in self._cursors)


class JobConnection:
    """The writer's connection as a job sees it. Where a transaction ends is not a job's business."""

    def __init__(self, connection: psycopg.Connection[Any], pipeline: psycopg.Pipeline) -> None:
        self._connection = connection
        self._pipeline = pipeline
        self._sent: list[tuple[psycopg.Cursor[Any], int]] = []
        self._added: list[tuple[Insert, tuple[Any, ...], Sequence[float], Rows | None]] = []
        self._appending = Appending(connection)
        self.place = 0
        """Of the job that runs, in its batch."""
        self.statements = 0
        """That change something, of this batch so far."""
        self.telling = False
        """Whether others are to be told of this batch."""
        self.bumped: set[str] = set()
        self.held: set[str] = set()
        """The locks of this transaction."""

    def execute(self, sql: str, parameters: Any = (), /) -> _Lazy:
        """Send a statement. Its error, or an earlier one's, comes at once or whenever something is fetched."""
        self.statements += not is_reading(sql)
        return _Lazy(self._send(sql, parameters), self._pipeline.sync)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> _Many:
        """Send a statement once for each of many parameters."""
        self.statements += 1
        return _Many([self._send(sql, one) for one in parameters], self._pipeline.sync)

    def add(
        self, insert: Insert, key: tuple[str | int, ...], amounts: Sequence[float], only_if: Rows | None
    ) -> None:
        """Remember it for `settle`."""
        self._added.append((insert, key, amounts, only_if))
        self.statements += 1

    def append(self, insert: Insert, row: Sequence[Any]) -> Appended:
        """Remember a row, to be sent before any statement of another kind. Raises what Appending.add does."""
        appended = self._appending.add(insert, row)
        self.statements += 1
        return appended

    def settle(self) -> None:
        """Send the rows that were remembered, and add to sums, in the order of keys."""
        self._appending.send(self._note_shared)
        added, self._added = self._added, []
        tables: dict[Insert, dict[tuple[Any, ...], Sequence[float]]] = {}
        for insert, key, amounts, only_if in added:
            if only_if is None or only_if.rowcount:
                sums = tables.setdefault(insert, {})
                before = sums.get(key)
                sums[key] = (
                    amounts if before is None else [a + b for a, b in zip(before, amounts, strict=True)]
                )
        for insert in sorted(tables, key=lambda one: one.table):
            many = many_rows(insert)
            rows = [many.row((*key, *amounts)) for key, amounts in sorted(tables[insert].items())]
            many.send(self._connection, rows, self._note_shared)

    def culprit(self) -> int | None:
        """The place of the job whose statement failed, when the pipeline has ended; None where it is not one job's."""
        found = next((place for cursor, place in self._sent if cursor.pgresult is None), _SEVERAL)
        return None if found == _SEVERAL else found

    def _send(self, sql: str, parameters: Any) -> psycopg.Cursor[Any]:
        self._appending.send(self._note_shared)
        cursor = self._connection.cursor(binary=True)
        self._sent.append((cursor, self.place))
        with translating():
            return cursor.execute(as_postgres(sql), arguments(sql, parameters))

    def _note_shared(self, cursor: psycopg.Cursor[Any]) -> None:
        self._sent.append((cursor, _SEVERAL))


class _Undone(Exception):
    """A batch was undone: because of the job at this place, where that is known."""

    def __init__(self, place: int | None, error: BaseException) -> None:
        super().__init__()
        self.place = place
        self.error = error


class _Lost(Exception):
    """A batch was not written, because there is no database to write to."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.reason = str(error) if isinstance(error, StoreFailed) else in_words(error)


class Writer(WritingThread):
    """Owns the writing connection, which it opens again when it is lost, and its thread."""

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        *,
        max_pending: int,
        committed: Callable[[frozenset[str]], None],
        connected: Callable[[Place], None],
    ) -> None:
        """`committed` is called after a commit, with the names of the counters that it moved.

        `connected` is called with the server of each connection. Raises psycopg.OperationalError.
        """
        super().__init__(max_pending=max_pending)
        self._connect = connect
        self._committed = committed
        self._server_known = connected
        self._server: Place | None = None
        self._connection: psycopg.Connection[Any] | None = None
        self._connected()
        self.start()

    # ---- below here everything runs on the writer's thread

    def _close_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _note(self, error: BaseException) -> None:
        if not isinstance(error, (psycopg.Error, StoreFailed)):
            return
        self._note_reason(in_words(error) if isinstance(error, psycopg.Error) else str(error))

    def _note_reason(self, reason: str) -> None:
        if reason != self._problem:
            log.error("store_cannot_write", reason=reason)
        self._problem = reason

    def _write_batch(self, batch: list[Item]) -> None:
        if batch[0].alone:
            self._write_alone(batch[0])
            return
        left = [[item for item in batch if item.future.running() or _begun(item)]]
        try:
            while left:
                some = left.pop()
                if some:
                    left += self._write_these(some)
        except _Lost as lost:
            # What was being written is the last of `left`, and comes first.
            self._wait_for_database(lost.reason, [*some, *(item for part in reversed(left) for item in part)])

    def _write_alone(self, item: Item) -> None:
        """Outside any transaction."""
        if not _begun(item):
            return
        try:
            succeed(item, item.job(self._connected()))
        except BaseException as error:
            fail(item.future, _as_ours(error))

    def _write_these(self, items: list[Item]) -> list[list[Item]]:
        """Write a part of a batch; gives what is still to be written, the first part last. Raises _Lost."""
        try:
            done = self._attempted(items)
        except _Undone as undone:
            if len(items) == 1:
                self._note_refusal(undone.error)
                fail(items[0].future, _as_ours(undone.error))
                return []
            place = undone.place
            if place is None:
                half = len(items) // 2
                return [items[half:], items[:half]]
            return [items[place + 1 :], [items[place]], items[:place]]
        except StoreFailed as error:
            self._note(error)
            for item in items:
                fail(item.future, error)
            return []
        for item, result in done:
            succeed(item, result)
        return []

    def _note_refusal(self, error: BaseException) -> None:
        cause = error if isinstance(error, psycopg.Error) else error.__cause__
        if isinstance(cause, psycopg.Error) and not isinstance(
            cause, (psycopg.IntegrityError, psycopg.DataError)
        ):
            self._note(cause)

    def _attempted(self, items: list[Item]) -> list[tuple[Item, Any]]:
        """Write a batch, again where it met a deadlock, and once more where the connection was lost."""
        until_s = time.monotonic() + _AGAIN_WITHIN_S
        tried = lost = 0
        while True:
            try:
                return self._written(items)
            except _Undone as undone:
                if not may_succeed_again(undone.error) or time.monotonic() > until_s:
                    raise
                if tried and len(items) > 1:
                    # A smaller transaction holds less of what others wait for.
                    raise _Undone(None, undone.error) from undone
                time.sleep(min(_LONGEST_PAUSE_S, _PAUSE_S * 2**tried) * _JITTER.uniform(0.5, 1.5))
                tried += 1
            except _Lost:
                self._lose()
                if lost:
                    raise
                lost += 1

    def _wait_for_database(self, reason: str, items: list[Item]) -> None:
        """Until it is there again, or nothing is left to be written before closing: urgent jobs fail, patient ones wait."""
        self._note_reason(reason)
        self._begin_down(reason, items)
        pause_s = _PAUSE_S
        while self._rest(pause_s * _JITTER.uniform(0.5, 1.5)):
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)
            try:
                self._connected().execute("SELECT 1")
            except (psycopg.Error, _Lost) as error:
                self._lose()
                if isinstance(error, psycopg.Error):
                    self._note(error)
            else:
                break
        self._end_down()

    def _written(self, items: list[Item]) -> list[tuple[Item, Any]]:
        """Write a batch in one transaction.

        Raises _Undone, _Lost, and StoreFailed where nobody knows whether it was written.
        """
        try:
            connection = self._connected()
        except psycopg.Error as error:
            raise _Lost(error) from error
        results: list[tuple[Item, Any]] = []
        failures: list[tuple[Item, BaseException]] = []
        seen: JobConnection | None = None
        try:
            with connection.pipeline() as pipeline:
                connection.execute("BEGIN", prepare=False)
                # Before any id is drawn from a sequence: see Settled. And a COMMIT without an answer is looked up by it.
                begun = connection.execute("SELECT pg_current_xact_id()::text")
                seen = JobConnection(connection, pipeline)
                for seen.place, item in enumerate(items):
                    before = seen.statements
                    try:
                        results.append((item, item.job(seen)))
                    except Exception as error:
                        if _is_of_database(error) or seen.statements > before:
                            raise
                        # Nothing was sent that would have to be undone.
                        failures.append((item, error))
                seen.settle()
                for name in sorted(seen.bumped):
                    connection.execute("UPDATE generations SET value = value + 1 WHERE name = %s", (name,))
                if seen.telling or seen.bumped:
                    connection.execute(f"NOTIFY {CHANNEL}")
            row = begun.fetchone()
            assert row is not None
        except BaseException as error:
            if is_lost(error) or connection.closed:
                raise _Lost(error) from error
            self._roll_back(connection)
            raise _Undone(_place_of(error, seen), error) from error
        self._commit(connection, row[0])
        if self._problem:
            self._problem = ""
            log.info("store_can_write")
        self._committed(frozenset(seen.bumped))
        for item, job_error in failures:
            fail(item.future, _as_ours(job_error))
        return results

    def _commit(self, connection: psycopg.Connection[Any], xid: str) -> None:
        try:
            connection.execute("COMMIT", prepare=False)
        except psycopg.Error as error:
            if not (is_lost(error) or connection.closed):
                self._roll_back(connection)
                raise _Undone(None, error) from error
            server = self._server
            self._lose()
            if not self._was_committed(xid, server, error):
                raise _Lost(error) from error

    def _was_committed(self, xid: str, server: Place | None, why: psycopg.Error) -> bool:
        """What became of a COMMIT without an answer. Raises StoreFailed where nobody can tell."""
        until_s = time.monotonic() + _VERDICT_WITHIN_S
        while time.monotonic() < until_s:
            try:
                connection = self._connected()
                if self._server != server:
                    # Another server has transactions of its own under the same numbers.
                    break
                row = connection.execute("SELECT pg_xact_status(%s::xid8)", (xid,)).fetchone()
            except psycopg.Error as error:
                if not is_lost(error):
                    break
                self._lose()
            else:
                if row is not None and row[0] in ("committed", "aborted"):
                    return bool(row[0] == "committed")
            time.sleep(_PAUSE_S * 5)
        raise StoreFailed("the connection was lost at the commit: whether it was done is not known") from why

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = None
            connection = self._connect()
            try:
                self._server = place_of(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
            self._server_known(self._server)
        return self._connection

    def _lose(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _roll_back(self, connection: psycopg.Connection[Any]) -> None:
        try:
            # Forgets which statements were prepared, too, as executing ROLLBACK would not always.
            connection.rollback()
        except psycopg.Error as error:
            log.error("store_rollback_failed", error=in_words(error))
            self._lose()


def _begun(item: Item) -> bool:
    return item.future.set_running_or_notify_cancel()


def _is_of_database(error: BaseException) -> bool:
    return isinstance(error, psycopg.Error) or isinstance(error.__cause__, psycopg.Error)


def _place_of(error: BaseException, seen: JobConnection | None) -> int | None:
    """Whose error ended the batch. The statements of several jobs are on their way at once: it may be an earlier one's."""
    if seen is None:
        return None
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    if isinstance(cause, psycopg.Error) and (
        cause.sqlstate is not None or isinstance(cause, psycopg.errors.PipelineAborted)
    ):
        return seen.culprit()
    return seen.place


def _as_ours(error: BaseException) -> BaseException:
    return translated(error) if isinstance(error, psycopg.Error) else error
