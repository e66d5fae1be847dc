"""The thread that applies the log of examples, whoever wrote it, to one process's indexes. Knows no vector."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import structlog

from store.errors import StoreClosed

if TYPE_CHECKING:
    from store.examples.bank import ExampleBank
    from store.examples.vector_index import TenantIndexes

log = structlog.get_logger(__name__)

_PAGE = 1000
_AFTER_ERROR_S = 1.0


class IndexFollower:
    """Owns its thread between `start` and `stop`.

    It brings the tenants into memory, the largest first, then folds what is new: at once when notified of a commit in
    this process, within `poll_s` seconds for other processes. Snapshots are written every `save_every_s` seconds if
    anything changed, and at the end.
    """

    def __init__(
        self,
        bank: ExampleBank,
        indexes: TenantIndexes,
        *,
        poll_s: float = 0.5,
        save_every_s: float = 300.0,
    ) -> None:
        self._bank = bank
        self._indexes = indexes
        self._poll_s = poll_s
        self._save_every_s = save_every_s
        self._news = threading.Event()
        self._anew = threading.Event()
        self._progress = threading.Condition()
        self._folded_seq = -1
        self._reloaded: dict[str, int] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.last_error: Exception | None = None
        """Why the latest round failed; None once a round has succeeded again."""

    @property
    def folded_seq(self) -> int:
        """Every change up to this place in the log is in the indexes; -1 until all tenants have been brought in."""
        return self._folded_seq

    @property
    def ready(self) -> bool:
        """Whether the tenants that were there at the start are in memory."""
        return self._folded_seq >= 0

    def start(self) -> None:
        """Start the thread."""
        if self._thread is not None:
            raise RuntimeError("this follower has been started already")
        self._indexes.attach(self._bank, self.notify)
        self._thread = threading.Thread(target=self._run, name="index-follower", daemon=True)
        self._thread.start()

    def notify(self) -> None:
        """Say that there is news. Costs nothing; may be called from any thread."""
        self._news.set()
        if self._indexes.far is not None:
            self._indexes.far.notify()

    def wait_for(self, seq: int, timeout_s: float) -> bool:
        """Wait until everything up to `seq`, and every tenant asked for, is in memory. False after `timeout_s`."""
        until_s = time.monotonic() + timeout_s
        self.notify()
        with self._progress:
            followed = self._progress.wait_for(
                lambda: self._folded_seq >= seq and self.ready and not self._indexes.wanted(), timeout_s
            )
        return followed and self._indexes.reached(seq, until_s - time.monotonic())

    def read_anew(self) -> None:
        """Say that changes which were seen are gone: everything in memory is read again. May be called from any thread."""
        self._anew.set()
        self._news.set()

    def stop(self, timeout_s: float = 30.0) -> bool:
        """Write the snapshots and end the thread. False if that took longer than `timeout_s` seconds."""
        thread = self._thread
        if thread is None:
            return True
        self._stopping.set()
        self._news.set()
        rebuilt = self._indexes.close(timeout_s)
        thread.join(timeout_s)
        return rebuilt and not thread.is_alive()

    def _run(self) -> None:
        save_at_s = time.monotonic() + self._save_every_s
        while not self._stopping.is_set():
            try:
                self._round()
                if time.monotonic() >= save_at_s:
                    self._indexes.measure()
                    self._save()
                    save_at_s = time.monotonic() + self._save_every_s
            except StoreClosed:
                return
            except Exception as error:
                if self.last_error is None:
                    log.error("index_follower_failed", error=error)
                self.last_error = error
                self._stopping.wait(_AFTER_ERROR_S)
            else:
                self.last_error = None
            self._news.wait(self._poll_s)
        if self.ready:
            try:
                self._save()
            except Exception as error:
                # The next start rebuilds from the database.
                log.error("index_snapshots_not_written", error=error)

    def _round(self) -> None:
        self._news.clear()
        if self._anew.is_set():
            self._anew.clear()
            try:
                self._read_anew()
            except BaseException:
                self._anew.set()
                raise
        if not self.ready:
            self._bring_in_all()
        while not self._stopping.is_set():
            for tenant in self._indexes.wanted():
                self._indexes.load(tenant)
            changes = self._bank.tail(self._folded_seq, _PAGE)
            self._reload_what_was_missed()
            if changes:
                self._bank.followed(changes[-1].seq)
                self._indexes.fold(changes)
            with self._progress:
                if changes:
                    self._folded_seq = changes[-1].seq
                self._progress.notify_all()
            if len(changes) < _PAGE:
                return

    def _read_anew(self) -> None:
        seq = self._bank.last_seq()
        for tenant in self._indexes.resident():
            self._indexes.reload(tenant)
        self._indexes.forget_empty()
        self._reloaded.clear()
        with self._progress:
            self._folded_seq = min(self._folded_seq, seq)
            self._progress.notify_all()

    def _reload_what_was_missed(self) -> None:
        for tenant, up_to_seq in self._bank.dropped(self._folded_seq).items():
            if self._reloaded.get(tenant, 0) < up_to_seq:
                # Removals were dropped from the log before this process saw them.
                log.warning("index_read_anew", tenant=tenant)
                self._indexes.reload(tenant)
                self._reloaded[tenant] = up_to_seq

    def _bring_in_all(self) -> None:
        seq = self._bank.last_seq()
        tenants = self._bank.tenants()
        self._indexes.keep_snapshots_of(tenants)
        for tenant in sorted(tenants, key=lambda name: (-tenants[name], name)):
            if self._stopping.is_set():
                return
            if self._indexes.has_room(tenants[tenant]):
                self._indexes.load(tenant)
        self._bank.followed(seq)
        self._folded_seq = seq

    def _save(self) -> None:
        self._indexes.save(self._bank.database_id(), self._folded_seq)
