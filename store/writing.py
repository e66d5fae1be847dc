"""The queue before the one thread of a process that writes: many small jobs, taken in batches. Knows no database."""

from __future__ import annotations

import collections
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from store.errors import StoreBusy, StoreClosed, StoreFailed
from store.guarding import checked

log = structlog.get_logger(__name__)

T = TypeVar("T")

_MAX_BATCH_JOBS = 256
_GATHER_S = 0.05
"""How long patient jobs are gathered: waking this thread for each one costs its request more than what is written, and rows
that are written together touch the same pages of the indices."""
_STUCK_S = 5.0


@dataclass(frozen=True, slots=True)
class Item:
    job: Callable[[Any], Any]
    future: Future[Any]
    after: Callable[[Any], None] | None
    """Called with the result after the commit and before the future resolves."""
    alone: bool
    """Runs outside any transaction, as a checkpoint must."""
    patient: bool
    """Nobody waits for it."""
    spare: bool = False
    """Dropped first where there is no room."""
    rows: int = 1
    """As many jobs it counts for, where room is short."""


_JOINED: ContextVar[list[Item] | None] = ContextVar("joined", default=None)
"""What is handed over to be written as one job; None: each for itself."""


class WritingThread(ABC):
    """What waits to be written, and the thread that writes it. `submit` may be called from any thread and never waits."""

    def __init__(self, *, max_pending: int) -> None:
        self._max_pending = max_pending
        self._waiting: collections.deque[Item] = collections.deque()
        self._taken = 0
        self._waiting_rows = self._taken_rows = 0
        self._urgent = 0
        """How many of those that wait are not patient."""
        self._state = threading.Condition()
        self._closing = False
        self._spare = 0
        """How many of those that wait would be dropped first."""
        self._problem = ""
        self._down = ""
        """Why nothing can be written at all, for now: then only what is patient is taken."""
        self._writing_since_s = 0.0
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)

    def start(self) -> None:
        """Begin writing."""
        self._thread.start()

    @abstractmethod
    def _write_batch(self, batch: list[Item]) -> None:
        """Write what was taken from the queue, and settle the future of each. On the writer's thread."""

    @abstractmethod
    def _note(self, error: BaseException) -> None:
        """Keep in mind what is wrong with the database. On the writer's thread."""

    @abstractmethod
    def _close_connection(self) -> None:
        """The last thing that the writer's thread does."""

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
        job: Callable[[Any], T],
        *,
        after: Callable[[T], None] | None = None,
        alone: bool = False,
        patient: bool = False,
        spare: bool = False,
        rows: int = 1,
    ) -> Future[T]:
        """Queue a job; its future resolves after the commit. Raises StoreBusy or StoreClosed, and never waits.

        A patient one may wait a little for others, and as long as it takes where the database is away; others fail then at
        once. `spare`: dropped with StoreBusy, the oldest first, where another finds no room. All are written in their order,
        and only if the guards of the caller's context allow it then (store.guarding).
        """
        future: Future[T] = Future()
        dropped: Item | None = None
        if not alone:
            job = checked(job)
            if (joined := _JOINED.get()) is not None:
                joined.append(Item(job, future, after, alone, patient, spare))
                return future
        with self._state:
            if self._closing:
                raise StoreClosed("the store is closed: nothing more can be written")
            if self._down and not patient:
                future.set_exception(StoreFailed(self._down))
                return future
            if self._waiting_rows + self._taken_rows >= self._max_pending:
                if spare or not self._spare:
                    raise StoreBusy(f"{self._max_pending} jobs already wait to be written")
                dropped = self._drop_spare()
            self._waiting.append(Item(job, future, after, alone, patient, spare, rows))
            self._waiting_rows += rows
            self._urgent += not patient
            self._spare += spare
            if len(self._waiting) == 1 or (self._urgent == 1 and not patient):
                self._state.notify_all()
        if dropped is not None:
            fail(dropped.future, StoreBusy(f"{self._max_pending} jobs already wait to be written"))
        return future

    @contextmanager
    def joined(self) -> Iterator[None]:
        """The jobs that the block hands over are one: all of them are written in their order, or none; their futures resolve
        after the block. Not for two databases at once."""
        items: list[Item] = []
        token = _JOINED.set(items)
        try:
            yield
        finally:
            _JOINED.reset(token)

        def settle(written: Future[list[Any]]) -> None:
            if error := written.exception():
                for item in items:
                    fail(item.future, error)
                return
            for item, result in zip(items, written.result(), strict=True):
                succeed(item, result)

        written = self.submit(lambda connection: [item.job(connection) for item in items])
        written.add_done_callback(settle)

    def _drop_spare(self) -> Item:
        at = next(place for place, item in enumerate(self._waiting) if item.spare)
        item = self._waiting[at]
        del self._waiting[at]
        self._waiting_rows -= item.rows
        self._spare -= 1
        self._urgent -= not item.patient
        return item

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
        abandoned: list[Item] = []
        with self._state:
            abandoned.extend(self._waiting)
            self._waiting.clear()
            self._waiting_rows = self._urgent = self._spare = 0
            self._state.notify_all()
        for item in abandoned:
            fail(item.future, StoreClosed("the store was closed before this could be written"))
        self._thread.join(timeout_s)
        return written

    # ---- below here everything runs on the writer's thread

    def _run(self) -> None:
        try:
            while batch := self._next_batch():
                try:
                    self._write_batch(batch)
                except BaseException as error:
                    log.warning("store_write_failed", jobs=len(batch), error=error)
                    self._note(error)
                    for item in batch:
                        fail(item.future, error)
                finally:
                    with self._state:
                        self._taken = self._taken_rows = 0
                        self._state.notify_all()
        finally:
            self._close_connection()

    def _begin_down(self, reason: str, kept: list[Item]) -> None:
        """Nothing can be written: what is urgent fails now, what is patient goes back to where it was in the queue."""
        with self._state:
            self._down = reason
            waiting = [*kept, *self._waiting]
            self._waiting = collections.deque(item for item in waiting if item.patient)
            self._taken = self._taken_rows = self._urgent = 0
            self._waiting_rows = sum(item.rows for item in self._waiting)
            self._spare = sum(item.spare for item in self._waiting)
            self._state.notify_all()
        for item in waiting:
            if not item.patient:
                fail(item.future, StoreFailed(reason))

    def _end_down(self) -> None:
        with self._state:
            self._down = ""

    def _rest(self, seconds: float) -> bool:
        """Wait so long; False where nothing is left to be written before closing."""
        with self._state:
            return not self._state.wait_for(lambda: self._closing and not self._waiting, seconds)

    def _next_batch(self) -> list[Item]:
        with self._state:
            self._state.wait_for(lambda: self._waiting or self._closing)
            self._state.wait_for(lambda: self._urgent or self._closing, _GATHER_S)
            batch: list[Item] = []
            while self._waiting and len(batch) < _MAX_BATCH_JOBS:
                if self._waiting[0].alone and batch:
                    break
                batch.append(self._waiting.popleft())
                self._urgent -= not batch[-1].patient
                self._spare -= batch[-1].spare
                if batch[-1].alone:
                    break
            self._taken, self._taken_rows = len(batch), sum(item.rows for item in batch)
            self._waiting_rows -= self._taken_rows
            self._writing_since_s = time.monotonic()
            return batch


def succeed(item: Item, result: Any) -> None:
    """Settle the future of what is committed."""
    if item.after is not None:
        try:
            item.after(result)
        except Exception as error:
            log.error("after_commit_failed", error=error)
    if not item.future.done():
        item.future.set_result(result)


def fail(future: Future[Any], error: BaseException) -> None:
    """Settle the future of what is not."""
    if not future.done():
        future.set_exception(error)
