"""Applies the log of examples, whoever wrote it, to one process's indexes. Knows no vector."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import structlog

from store.changes import Follower
from store.errors import StoreClosed

if TYPE_CHECKING:
    from store.examples.bank import ExampleBank
    from store.examples.vector_index import TenantIndexes

log = structlog.get_logger(__name__)

_PAGE = 1000


class IndexFollower(Follower):
    """Keeps the indexes up with the log.

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
        super().__init__("index", poll_s)
        self._bank = bank
        self._indexes = indexes
        self._save_every_s = save_every_s
        self._save_at_s = time.monotonic() + save_every_s
        self._anew = threading.Event()
        self._progress = threading.Condition()
        self._folded_seq = -1
        self._reloaded: dict[str, int] = {}
        self._to_bring_in: list[tuple[str, int]] | None = None
        """Tenants, with their number of examples, that were there at the start: the largest last. None: not known yet."""
        self._brought_from = 0
        self._to_save: list[str] = []
        indexes.attach(bank, self.notify)

    @property
    def folded_seq(self) -> int:
        """Every change up to this place in the log is in the indexes; -1 until all tenants have been brought in."""
        return self._folded_seq

    @property
    def ready(self) -> bool:
        """Whether the tenants that were there at the start are in memory."""
        return self._folded_seq >= 0

    def notify(self) -> None:
        """Say that there is news. Costs next to nothing; may be called from any thread."""
        super().notify()
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
        self.notify()

    def stop(self, timeout_s: float | None = 30.0) -> bool:
        """Follow no more, and write the snapshots. False if a look took longer than `timeout_s` seconds."""
        if self._stopping.is_set():
            return True
        ended = super().stop(timeout_s)
        rebuilt = self._indexes.close(timeout_s or 0.0)
        if ended and self.ready:
            try:
                self._indexes.save(self._bank.database_id(), self._folded_seq)
            except StoreClosed:
                pass
            except Exception as error:
                # The next start rebuilds from the database.
                log.error("index_snapshots_not_written", error=error)
        return rebuilt and ended

    def look(self) -> bool:
        """Bring one tenant in, fold a page of the log, or save one tenant: see Follower."""
        if self._anew.is_set():
            self._anew.clear()
            try:
                self._read_anew()
            except BaseException:
                self._anew.set()
                raise
        if not self.ready:
            self._bring_one_in()
            return True
        wanted = self._indexes.wanted()
        if wanted:
            self._indexes.load(wanted[0])
        changes = self._bank.tail(self._folded_seq, _PAGE)
        self._reload_what_was_missed()
        if changes:
            self._bank.followed(changes[-1].seq)
            self._indexes.fold(changes)
        with self._progress:
            if changes:
                self._folded_seq = changes[-1].seq
            self._progress.notify_all()
        return len(wanted) > 1 or len(changes) == _PAGE or self._saves_one()

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

    def _bring_one_in(self) -> None:
        if self._to_bring_in is None:
            self._brought_from = self._bank.last_seq()
            tenants = self._bank.tenants()
            self._indexes.keep_snapshots_of(tenants)
            self._to_bring_in = sorted(tenants.items(), key=lambda one: (-one[1], one[0]))[::-1]
        if self._to_bring_in:
            tenant, examples = self._to_bring_in[-1]
            if self._indexes.has_room(examples):
                self._indexes.load(tenant)
            self._to_bring_in.pop()
            return
        self._bank.followed(self._brought_from)
        self._folded_seq = self._brought_from

    def _saves_one(self) -> bool:
        """Save a tenant where snapshots are due; whether there is another one to be saved."""
        if time.monotonic() >= self._save_at_s:
            self._indexes.measure()
            self._to_save = self._indexes.resident()
            self._save_at_s = time.monotonic() + self._save_every_s
        if not self._to_save:
            return False
        tenant = self._to_save.pop()
        self._indexes.save(self._bank.database_id(), self._folded_seq, tenants=[tenant])
        return True
