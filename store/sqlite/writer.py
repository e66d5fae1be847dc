"""The one thread of a process that writes: many small jobs in one transaction. Knows no table."""

from __future__ import annotations

import collections
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from store.errors import StoreBusy, StoreClosed
from store.sqlite.translation import in_words, translated

log = structlog.get_logger(__name__)

T = TypeVar("T")

_MAX_BATCH_JOBS = 256
_GATHER_S = 0.01
"""How long patient jobs are gathered: waking this thread for each one costs its request more than what is written."""
_STUCK_S = 5.0
_MAX_BATCH_S = 0.05
"""Other processes wait for the same lock: a batch is cut here, so that they get their turn."""


class WritingConnection(sqlite3.Connection):
    """The writer's connection as a job sees it: it may read and write, but where a transaction ends is not its business."""

    def commit(self) -> None:
        raise RuntimeError("a write job must not commit: the writer does, for the whole batch")

    def rollback(self) -> None:
        raise RuntimeError("a write job must not roll back: raise an exception, and only this job is undone")

    def executescript(self, sql_script: str, /) -> sqlite3.Cursor:
        raise RuntimeError(
            "executescript commits behind the writer's back: execute the statements one by one"
        )


@dataclass(frozen=True, slots=True)
class _Item:
    job: Callable[[sqlite3.Connection], Any]
    future: Future[Any]
    after: Callable[[Any], None] | None
    """Called with the result after the commit and before the future resolves."""
    alone: bool
    """Runs outside any transaction, as a checkpoint must."""
    patient: bool
    """Nobody waits for it."""


class Writer:
    """Owns the writing connection and its thread. `submit` may be called from any thread and never waits."""

    def __init__(self, connection: sqlite3.Connection, *, max_pending: int) -> None:
        self._connection = connection
        self._max_pending = max_pending
        self._waiting: collections.deque[_Item] = collections.deque()
        self._taken = 0
        self._urgent = 0
        """How many of those that wait are not patient."""
        self._state = threading.Condition()
        self._closing = False
        self._problem = ""
        self._writing_since_s = 0.0
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    @property
    def pending(self) -> int:
        """Jobs handed over whose fate is not yet known."""
        with self._state:
            return len(self._waiting) + self._taken

    @property
    def problem(self) -> str:
        """Why writing fails, or takes long; empty once something was written again."""
        with self._state:
            waiting_s = time.monotonic() - self._writing_since_s if self._taken else 0.0
        if waiting_s > _STUCK_S:
            return f"a write has been waiting for {waiting_s:.0f} s, as when another process holds a lock"
        return self._problem

    def submit(
        self,
        job: Callable[[sqlite3.Connection], T],
        *,
        after: Callable[[T], None] | None = None,
        alone: bool = False,
        patient: bool = False,
    ) -> Future[T]:
        """Queue a job; its future resolves after the commit. Raises StoreBusy or StoreClosed, and never waits.

        A patient one may wait a little for others. All are written in their order.
        """
        future: Future[T] = Future()
        with self._state:
            if self._closing:
                raise StoreClosed("the store is closed: nothing more can be written")
            if len(self._waiting) + self._taken >= self._max_pending:
                raise StoreBusy(f"{self._max_pending} jobs already wait to be written")
            self._waiting.append(_Item(job, future, after, alone, patient))
            self._urgent += not patient
            if len(self._waiting) == 1 or (self._urgent == 1 and not patient):
                self._state.notify_all()
        return future

    def drain(self, timeout_s: float) -> bool:
        """Wait until nothing is pending. False if that took longer than `timeout_s` seconds."""
        with self._state:
            return self._state.wait_for(lambda: not self._waiting and not self._taken, timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Take no more jobs, write what waits, and end the thread.

        What could not be written within `timeout_s` seconds fails with StoreClosed. True if all was written.
        """
        with self._state:
            self._closing = True
            self._state.notify_all()
        written = self.drain(timeout_s)
        abandoned: list[_Item] = []
        with self._state:
            abandoned.extend(self._waiting)
            self._waiting.clear()
            self._state.notify_all()
        for item in abandoned:
            _fail(item.future, StoreClosed("the store was closed before this could be written"))
        self._thread.join(timeout_s)
        return written

    # ---- below here everything runs on the writer's thread

    def _run(self) -> None:
        try:
            while batch := self._next_batch():
                try:
                    self._write(batch)
                except BaseException as error:
                    log.warning("store_write_failed", jobs=len(batch), error=error)
                    self._failed(error)
                    for item in batch:
                        _fail(item.future, error)
                finally:
                    with self._state:
                        self._taken = 0
                        self._state.notify_all()
        finally:
            self._connection.close()

    def _next_batch(self) -> list[_Item]:
        with self._state:
            self._state.wait_for(lambda: self._waiting or self._closing)
            self._state.wait_for(lambda: self._urgent or self._closing, _GATHER_S)
            batch: list[_Item] = []
            while self._waiting and len(batch) < _MAX_BATCH_JOBS:
                if self._waiting[0].alone and batch:
                    break
                batch.append(self._waiting.popleft())
                self._urgent -= not batch[-1].patient
                if batch[-1].alone:
                    break
            self._taken = len(batch)
            self._writing_since_s = time.monotonic()
            return batch

    def _write(self, batch: list[_Item]) -> None:
        if batch[0].alone:
            _resolve(batch[0], self._connection)
            return
        batch = [item for item in batch if item.future.set_running_or_notify_cancel()]
        while batch:
            batch = self._write_some(batch)

    def _write_some(self, batch: list[_Item]) -> list[_Item]:
        """Write a transaction's worth from the front of `batch`; returns what still has to be written."""
        results: list[tuple[_Item, Any]] = []
        failures: list[tuple[_Item, BaseException]] = []
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
                    self._failed(error)
                    if not self._connection.in_transaction:
                        # SQLite itself gave the transaction up (disk full, I/O error), and with it what this
                        # batch had done so far: that is done again, without the job that met the error.
                        left.extendleft(reversed([done for done, _ in results]))
                        results.clear()
                        break
            if self._connection.in_transaction:
                self._commit(before)
        except BaseException as error:
            self._failed(error)
            self._roll_back()
            if len(results) + len(left) > 1:
                # One oversized job may be what does not fit: alone, each gets its own verdict.
                for item in [done for done, _ in results] + list(left):
                    self._write_one(item)
            else:
                for item in [done for done, _ in results] + list(left):
                    _fail(item.future, error)
            results, left = [], collections.deque()
        for item, job_error in failures:
            _fail(item.future, job_error)
        for item, result in results:
            _succeed(item, result)
        return list(left)

    def _write_one(self, item: _Item) -> None:
        before = self._connection.total_changes
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            result = self._run_job(item)
            self._commit(before)
        except BaseException as error:
            self._failed(error)
            self._roll_back()
            _fail(item.future, error)
        else:
            _succeed(item, result)

    def _run_job(self, item: _Item) -> Any:
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

    def _failed(self, error: BaseException) -> None:
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


def _resolve(item: _Item, connection: sqlite3.Connection) -> None:
    if not item.future.set_running_or_notify_cancel():
        return
    try:
        result = item.job(connection)
    except BaseException as error:
        _fail(item.future, error)
    else:
        _succeed(item, result)


def _succeed(item: _Item, result: Any) -> None:
    if item.after is not None:
        try:
            item.after(result)
        except Exception as error:
            log.error("after_commit_failed", error=error)
    if not item.future.done():
        item.future.set_result(result)


def _fail(future: Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(translated(error) if isinstance(error, sqlite3.Error) else error)
