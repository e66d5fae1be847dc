"""The one thread of a process that writes: many small jobs in one transaction. Knows no table."""

from __future__ import annotations

import collections
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import structlog

from store.errors import NO_INTEGER, ValueRefused
from store.inserting import Insert
from store.sqlite.translation import in_words, translated
from store.writing import Item, WritingThread, fail, succeed

log = structlog.get_logger(__name__)

_MOST_ROWS = 64
"""Inserted by one statement: SQLite takes 32,766 values."""
_MAX_BATCH_S = 0.05
"""Other processes wait for the same lock: a batch is cut here, so that they get their turn."""


@dataclass(slots=True)
class _Appended:
    """A row to be inserted with others. See store.database.Database.append."""

    row: Sequence[Any]
    needed: bool = False
    """Sums are added to on the condition that it is new."""
    rowcount: int = 1
    """It is taken to be new: where one is not, the batch is written apart."""


class _Repeated(Exception):
    """A row that sums depend on is there already."""


class WritingConnection(sqlite3.Connection):
    """The writer's connection as a job sees it: it may read and write, but where a transaction ends is not its business.

    While `gathering`, rows that jobs append and sums that they add to are written in bulk, before the next statement of any
    other kind: each statement lets go of the interpreter, and waits to get it back.
    """

    gathering = False

    def append(self, insert: Insert, row: Sequence[Any]) -> sqlite3.Cursor | _Appended:
        """See store.database.Database.append."""
        if not self.gathering:
            return self.execute(insert.sql, row)
        appended = _Appended(row)
        self._rows.setdefault(insert, []).append(appended)
        return appended

    def add(
        self, insert: Insert, key: tuple[Any, ...], amounts: Sequence[float], only_if: Any = None
    ) -> None:
        """See store.database.Database.add."""
        if isinstance(only_if, _Appended):
            only_if.needed = True
        elif only_if is not None and not only_if.rowcount:
            return
        if not self.gathering:
            self.execute(insert.sql, (*key, *amounts))
            return
        before = self._sums.get((insert, key))
        added = amounts if before is None else [a + b for a, b in zip(before, amounts, strict=True)]
        self._sums[insert, key] = added

    def gather(self) -> None:
        """Write in bulk from now on, until `flush`."""
        self.gathering = True
        self._rows: dict[Insert, list[_Appended]] = {}
        self._sums: dict[tuple[Insert, tuple[Any, ...]], Sequence[float]] = {}

    def flush(self) -> None:
        """Write what was gathered. Raises _Repeated, and what `execute` does."""
        rows, sums = self._rows, self._sums
        if not (rows or sums):
            return
        self._rows, self._sums = {}, {}
        self.gathering = False
        for insert, appended in rows.items():
            self._insert(insert, appended)
        for (insert, key), amounts in sums.items():
            self.execute(insert.sql, (*key, *amounts))
        self.gathering = True

    def _insert(self, insert: Insert, appended: list[_Appended]) -> None:
        at = 0
        while at < len(appended):
            # Powers of two: as many statements are prepared, and then known.
            count = min(_MOST_ROWS, 1 << ((len(appended) - at).bit_length() - 1))
            some = appended[at : at + count]
            new = self.execute(_many(insert, count), [value for one in some for value in one.row]).rowcount
            if new < count and any(one.needed for one in some):
                raise _Repeated
            at += count

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """As sqlite3's, but for a value that the schema forbids: ValueRefused."""
        if self.gathering:
            self.flush()
        try:
            return super().execute(sql, parameters)
        except sqlite3.IntegrityError as error:
            raise ValueRefused(str(error)) from error
        except OverflowError as error:
            raise ValueRefused(NO_INTEGER) from error

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        """As `execute`."""
        if self.gathering:
            self.flush()
        try:
            return super().executemany(sql, parameters)
        except sqlite3.IntegrityError as error:
            raise ValueRefused(str(error)) from error
        except OverflowError as error:
            raise ValueRefused(NO_INTEGER) from error

    def commit(self) -> None:
        raise RuntimeError("a write job must not commit: the writer does, for the whole batch")

    def rollback(self) -> None:
        raise RuntimeError("a write job must not roll back: raise an exception, and only this job is undone")

    def executescript(self, sql_script: str, /) -> sqlite3.Cursor:
        raise RuntimeError(
            "executescript commits behind the writer's back: execute the statements one by one"
        )


@cache
def _many(insert: Insert, count: int) -> str:
    return insert.of_rows(count)


class Writer(WritingThread):
    """Owns the writing connection and its thread. `submit` may be called from any thread and never waits."""

    def __init__(self, connection: WritingConnection, *, max_pending: int) -> None:
        super().__init__(max_pending=max_pending)
        self._connection = connection
        self.start()

    # ---- below here everything runs on the writer's thread

    def _close_connection(self) -> None:
        self._connection.close()

    def _write_batch(self, batch: list[Item]) -> None:
        if batch[0].alone:
            _resolve(batch[0], self._connection)
            return
        batch = [item for item in batch if item.future.set_running_or_notify_cancel()]
        while batch:
            batch = self._write_some(batch)

    def _write_some(self, batch: list[Item]) -> list[Item]:
        """Write a transaction's worth from the front of `batch`; returns what still has to be written."""
        left = self._write_together(batch)
        return self._write_apart(batch) if left is None else left

    def _write_together(self, batch: list[Item]) -> list[Item] | None:
        """The same for jobs that all succeed, without a savepoint for each. None: one did not, and nothing was written."""
        results: list[tuple[Item, Any]] = []
        before = self._connection.total_changes
        # Not within the block below: where another process holds the lock, it is waited for once.
        self._connection.execute("BEGIN IMMEDIATE")
        until_s = time.monotonic() + _MAX_BATCH_S
        try:
            self._connection.gather()
            for item in batch:
                results.append((item, item.job(self._connection)))
                if time.monotonic() >= until_s:
                    break
            self._connection.flush()
            self._connection.gathering = False
            self._commit(before)
        except BaseException:
            self._connection.gathering = False
            # Whose fault it was, and what is wrong, is found out by writing them apart.
            self._roll_back()
            return None
        for item, result in results:
            succeed(item, result)
        return batch[len(results) :]

    def _write_apart(self, batch: list[Item]) -> list[Item]:
        """Write a transaction's worth; a job that fails is undone, and the others are written."""
        results: list[tuple[Item, Any]] = []
        failures: list[tuple[Item, BaseException]] = []
        left = collections.deque(batch)
        before = self._connection.total_changes
        self._connection.execute("BEGIN IMMEDIATE")
        until_s = time.monotonic() + _MAX_BATCH_S
        try:
            while left and (time.monotonic() < until_s or not results):
                item = left.popleft()
                try:
                    results.append((item, self._run_job(item)))
                except BaseException as error:
                    failures.append((item, error))
                    self._note(error)
                    if not self._connection.in_transaction:
                        # SQLite itself gave the transaction up (disk full, I/O error), and with it what this
                        # batch had done so far: that is done again, without the job that met the error.
                        left.extendleft(reversed([done for done, _ in results]))
                        results.clear()
                        break
            if self._connection.in_transaction:
                self._commit(before)
        except BaseException as error:
            self._note(error)
            self._roll_back()
            if len(results) + len(left) > 1:
                # One oversized job may be what does not fit: alone, each gets its own verdict.
                for item in [done for done, _ in results] + list(left):
                    self._write_one(item)
            else:
                for item in [done for done, _ in results] + list(left):
                    fail(item.future, _as_ours(error))
            results, left = [], collections.deque()
        for item, job_error in failures:
            fail(item.future, _as_ours(job_error))
        for item, result in results:
            succeed(item, result)
        return list(left)

    def _write_one(self, item: Item) -> None:
        before = self._connection.total_changes
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            result = self._run_job(item)
            self._commit(before)
        except BaseException as error:
            self._note(error)
            self._roll_back()
            fail(item.future, _as_ours(error))
        else:
            succeed(item, result)

    def _run_job(self, item: Item) -> Any:
        connection = self._connection
        connection.execute("SAVEPOINT job")
        try:
            result = item.job(connection)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK TO job")
                connection.execute("RELEASE job")
            raise
        if not connection.in_transaction:
            raise RuntimeError("a write job ended the writer's transaction")
        connection.execute("RELEASE job")
        return result

    def _commit(self, changes_before: int) -> None:
        self._connection.execute("COMMIT")
        # A transaction that changes nothing can be committed to a full disk.
        if self._problem and self._connection.total_changes > changes_before:
            self._problem = ""
            log.info("store_can_write")

    def _note(self, error: BaseException) -> None:
        """Note what is wrong with the database; a value that its schema forbids is not."""
        if not isinstance(error, sqlite3.DatabaseError) or isinstance(error, sqlite3.IntegrityError):
            return
        reason = in_words(error)
        if reason != self._problem:
            log.error("store_cannot_write", reason=reason)
        self._problem = reason

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            log.error("store_rollback_failed", error=error)


def _resolve(item: Item, connection: sqlite3.Connection) -> None:
    if not item.future.set_running_or_notify_cancel():
        return
    try:
        result = item.job(connection)
    except BaseException as error:
        fail(item.future, _as_ours(error))
    else:
        succeed(item, result)


def _as_ours(error: BaseException) -> BaseException:
    return translated(error) if isinstance(error, sqlite3.Error) else error
