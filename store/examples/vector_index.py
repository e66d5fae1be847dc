"""Nearest examples, one index per tenant, so that no vector can ever reach another tenant's rows.

Derived from the bank and rebuildable from it at any time. Knows ids and vectors; no text, no SQL.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy.typing as npt
import structlog
from cachetools import LRUCache

from store.errors import StoreError
from store.examples.busy_thread import BusyThread
from store.examples.seals import Seal
from store.examples.shared_snapshots import Publisher, SharedSnapshots
from store.examples.snapshots import Snapshots
from store.examples.tenant_index import CONNECTIVITY, EXPANSION_ADD, TenantIndex, new_usearch_index
from store.examples.vectors import BadVector, checked
from store.records import Change, Vector

if TYPE_CHECKING:
    from store.examples.bank import ExampleBank

log = structlog.get_logger(__name__)

_EMPTY_REMEMBERED = 10_000
_WORTH_FETCHING = 1000
"""Changes in the log that a published snapshot must be ahead of this folder's own: following them takes half a second."""
_ANY_SEQ = 2**62
_WORTH_BRINGING = 16
_HALVED_EVERY_S = 600.0
_REBUILT_AT_ONCE = 2000
"""Vectors; a larger graph takes more than a second, for which the follower does not wait."""


class FarVectors(Protocol):
    """Where tenants are searched whose index is not in this process's memory: see store.postgres.vectors."""

    @property
    def ready(self) -> bool:
        """Whether what is found there is what the log told."""
        ...

    def nearest(self, tenant: str, vector: Vector, k: int) -> list[tuple[int, float]]:
        """As `TenantIndexes.nearest`, of a vector of unit length. Raises StoreError."""
        ...

    def start(self) -> None:
        """Begin following the log."""
        ...

    def notify(self) -> None:
        """Say that there is news."""
        ...

    def reached(self, seq: int, timeout_s: float) -> bool:
        """Wait until everything up to a place in the log is there."""
        ...

    def forget(self, tenant: str) -> None:
        """Delete a tenant's vectors."""
        ...

    def stop(self, timeout_s: float) -> bool:
        """End it."""
        ...


class TenantIndexes:
    """All tenants' indexes of one process.

    `nearest` may be called from any thread; everything that changes an index is called by one thread, the follower's.
    At most `max_resident` tenants are held in memory (an index costs 60 KiB and about 1 KiB per vector at 384
    dimensions); beyond it the one not used for longest goes, and comes back when it is asked for. With `far` a tenant out
    of memory is searched there, and comes back once it is asked for more often than the one that would go.
    """

    def __init__(
        self,
        folder: Path,
        dimensions: int,
        version: str,
        *,
        max_resident: int = 1000,
        shared: SharedSnapshots | None = None,
        owner: Callable[[], bool] = lambda: False,
        memory_bytes: int | None = None,
    ) -> None:
        """`shared`: where snapshots lie that every replica reads, and `owner` (this process, if it says so) publishes.

        `memory_bytes`: what all indexes together may take; None: no limit. 0: none is held here, all are searched in `far`.
        """
        self.far: FarVectors | None = None
        """To be given before the follower starts."""
        self._memory_bytes = memory_bytes
        self._bytes: dict[str, int] = {}
        self._too_large: dict[str, int] = {}
        """Tenants that do not fit by themselves, and how many bytes they take."""
        self._asked: LRUCache[str, int] = LRUCache(_EMPTY_REMEMBERED)
        """How often each tenant was asked for of late."""
        self._halve_at_s = 0.0
        self._far_fails = False
        self.dimensions = dimensions
        self.version = version
        self._snapshots = Snapshots(folder)
        self._shared = shared
        self.publisher = Publisher(shared, owner, self._snapshots.find) if shared is not None else None
        self.max_resident = max_resident
        self._resident: OrderedDict[str, TenantIndex] = OrderedDict()
        self._saved: dict[str, tuple[TenantIndex, int]] = {}
        self._wanted: dict[str, None] = {}
        # Tenants known to have nothing: anybody can make one up, and must not push a real one out of memory.
        self._empty: LRUCache[str, bool] = LRUCache(_EMPTY_REMEMBERED)
        self._lock = threading.Lock()
        self._files = threading.Lock()
        self.rebuilder = Rebuilder()
        self._source: ExampleBank | None = None
        self._when_wanted: Callable[[], None] | None = None
        self.refused = 0
        """Vectors in the log that were no embeddings of ours, and were left out."""

    def nearest(self, tenant: str, vector: npt.NDArray[Any], k: int) -> list[tuple[int, float]]:
        """Up to k (example id, cosine similarity) of the tenant's own examples, best first.

        `vector`: shape (dimensions,), any length but zero. Similarities carry bfloat16's error, about 0.004. For a
        tenant that is not in memory the answer is empty, and the follower is told to fetch it.

        Raises BadVector.
        """
        if k < 1:
            raise ValueError(f"k is {k}: at least 1 is right")
        query = checked(vector, self.dimensions)
        far = self.far if self.far is not None and self.far.ready else None
        with self._lock:
            if far is not None:
                self._note_asked(tenant)
            index = self._resident.get(tenant)
            if index is not None:
                self._resident.move_to_end(tenant)
            elif tenant in self._empty:
                return []
            elif self._is_to_come(tenant, far is not None):
                self._wanted[tenant] = None
            wanted = tenant in self._wanted
        if index is not None:
            return index.nearest(query, k)
        if wanted and self._when_wanted is not None:
            self._when_wanted()
        return [] if far is None else self._nearest_far(far, tenant, query, k)

    def size(self, tenant: str) -> int:
        """How many vectors of the tenant are in memory."""
        with self._lock:
            index = self._resident.get(tenant)
        return 0 if index is None else len(index)

    def resident(self) -> list[str]:
        """The tenants in memory, the one not used for longest first."""
        with self._lock:
            return list(self._resident)

    def has_room(self, examples: int = 0) -> bool:
        """Whether another tenant, of so many examples, can come into memory without one going."""
        with self._lock:
            return self._has_room(examples)

    def fold(self, changes: Iterable[Change]) -> None:
        """Take changes in, in the log's order. One that an index has taken in already is passed over.

        A vector of another embedding version takes the example out until it is embedded anew; one that is no
        embedding at all is counted in `refused` and left out. A tenant without an index gets one while there is room;
        without room it is passed over, and fetched whole when asked for.
        """
        touched: dict[str, TenantIndex | None] = {}
        erased: set[str] = set()
        for change in changes:
            if change.tenant not in touched:
                touched[change.tenant] = self._index_to_fold(change.tenant)
            index = touched[change.tenant]
            if index is not None:
                self._take_in(index, change)
            elif change.erase:
                erased.add(change.tenant)
        for tenant in erased:
            # Nobody here would write it anew without what has to leave the files.
            with self._files:
                self._remove_snapshot(tenant)
        for tenant, index in touched.items():
            # A vector that has to leave the files leaves them at the next snapshot: many removals, one rebuild.
            if index is None or not index.worn or (index.tainted and len(index)):
                continue
            if len(index) > _REBUILT_AT_ONCE:
                self.rebuilder.ask(index)
            elif index.rebuild():
                log.info("index_rebuilt", tenant=tenant)

    def save(self, database_id: str, seq: int, *, tenants: Iterable[str] | None = None) -> int:
        """Write a snapshot of every resident tenant that changed since its last one; gives how many were written.

        Of a tenant with a vector that has to leave the files (`Change.erase`) the old snapshot is removed, and none is
        written before its graph has been rebuilt. `seq`: everything up to this place in the log has been folded.
        Raises OSError.
        """
        return sum(
            self._save_one(tenant, database_id, seq)
            for tenant in (self.resident() if tenants is None else tenants)
        )

    def attach(self, source: ExampleBank, when_wanted: Callable[[], None]) -> None:
        """Say where a tenant's history comes from, and whom to tell when a tenant out of memory is asked for."""
        self._source = source
        self._when_wanted = when_wanted

    def load(self, tenant: str) -> None:
        """Bring a tenant into memory, up to the end of its log. It is searched only when it is complete.

        From a snapshot if there is one that is whole, of this database, embedding version and dimensions, and not from
        beyond the end of the log; otherwise all of it from the attached source.
        """
        source = self._source
        if source is None:
            raise RuntimeError("no source is attached: nothing to load from")
        if self._memory_bytes is not None and not self._fits(tenant, source):
            return
        index, seq = self._from_snapshot(tenant, source)
        known = 0
        while True:
            changes = source.tail(seq, tenant=tenant)
            dropped = source.dropped(seq).get(tenant, 0) if seq else 0
            if dropped > known:
                # Removals that this index has not seen are no longer told: what is left is read from the beginning.
                index, seq, known = TenantIndex(self.dimensions), 0, dropped
                continue
            if not changes:
                break
            for change in changes:
                self._take_in(index, change)
            seq = changes[-1].seq
        index.folded_seq = max(index.folded_seq, known)
        if len(index) <= _REBUILT_AT_ONCE:
            index.rebuild_if_worn()
        elif index.worn:
            self.rebuilder.ask(index)
        with self._lock:
            self._wanted.pop(tenant, None)
            if not len(index):
                self._empty[tenant] = True
                self._resident.pop(tenant, None)
                return
            self._bytes[tenant] = _bytes_of(index, self.dimensions)
            self._resident[tenant] = index
            self._make_room()

    def _has_room(self, examples: int = 0) -> bool:
        more_bytes = _bytes_at(examples, self.dimensions)
        if self._memory_bytes is not None and self._used_bytes() + more_bytes > self._memory_bytes:
            return False
        return len(self._resident) < self.max_resident

    def _fits(self, tenant: str, source: ExampleBank) -> bool:
        """Whether a tenant takes less than all indexes may; who does not is noted as too large."""
        size_bytes = _bytes_at(source.count(tenant), self.dimensions)
        with self._lock:
            if self._memory_bytes is None or size_bytes <= self._memory_bytes:
                return True
            self._too_large[tenant] = size_bytes
            self._wanted.pop(tenant, None)
            self._let_go(tenant)
            return False

    def _used_bytes(self) -> int:
        return sum(self._bytes.values())

    def _let_go(self, tenant: str) -> None:
        for known in (self._resident, self._saved, self._bytes):
            known.pop(tenant, None)

    def _make_room(self) -> None:
        """Let those go that were not used for longest, until the rest keeps to the limits."""
        while len(self._resident) > self.max_resident or (
            self._memory_bytes is not None
            and len(self._resident) > 1
            and self._used_bytes() > self._memory_bytes
        ):
            self._let_go(next(iter(self._resident)))

    def _is_to_come(self, tenant: str, elsewhere: bool) -> bool:
        """Whether a tenant out of memory is to come in; `elsewhere`: it can be searched without."""
        if tenant in self._too_large or self._memory_bytes == 0:
            return False
        if not elsewhere or self._has_room():
            return True
        first = next(iter(self._resident), None)
        return first is None or self._asked.get(tenant, 0) > 2 * self._asked.get(first, 0) + _WORTH_BRINGING

    def _note_asked(self, tenant: str) -> None:
        now_s = time.monotonic()
        if now_s >= self._halve_at_s:
            self._halve_at_s = now_s + _HALVED_EVERY_S
            for name in list(self._asked):
                self._asked[name] //= 2
        self._asked[tenant] = self._asked.get(tenant, 0) + 1

    def _nearest_far(self, far: FarVectors, tenant: str, query: Vector, k: int) -> list[tuple[int, float]]:
        try:
            found = far.nearest(tenant, query, k)
        except StoreError as error:
            if not self._far_fails:
                log.warning("far_vectors_failed", error=error)
            self._far_fails = True
            return []
        self._far_fails = False
        return found

    def measure(self) -> None:
        """Count what the indexes take, and let go what is beyond the limit. For the follower, now and then."""
        with self._lock:
            for tenant, index in self._resident.items():
                self._bytes[tenant] = _bytes_of(index, self.dimensions)
            self._too_large.clear()
            self._make_room()

    def limit_memory(self, memory_bytes: int | None) -> None:
        """Have another limit than at first. To be called before the follower starts."""
        self._memory_bytes = memory_bytes

    def is_too_small(self) -> bool:
        """Whether all tenants together take more than may be held here. Raises what reading raises."""
        if self._memory_bytes is None or self._source is None:
            return False
        totals = self._source.tenants().values()
        return self._memory_bytes < sum(_bytes_at(count, self.dimensions) for count in totals)

    def reached(self, seq: int, timeout_s: float) -> bool:
        """Wait until tenants out of memory, too, are searched with everything up to `seq`. False after `timeout_s`."""
        return self.far is None or self.far.reached(seq, timeout_s)

    def wanted(self) -> list[str]:
        """The tenants that were asked for while not in memory, and are still to be loaded."""
        with self._lock:
            return list(self._wanted)

    def reload(self, tenant: str) -> None:
        """Read a tenant anew if it is in memory: too much happened while nobody followed. The old index serves meanwhile."""
        with self._lock:
            if tenant not in self._resident:
                return
        self.load(tenant)

    def forget_empty(self) -> None:
        """Look again at tenants that had no vectors."""
        with self._lock:
            self._empty.clear()

    def purge(self, tenant: str, database_id: str) -> None:
        """Have nothing of removed vectors left in memory and in the snapshot. Blocks for a rebuild; not for the event loop.

        To be called when the removal has been folded.
        """
        with self._lock:
            index = self._resident.get(tenant)
        if index is None:
            with self._files:
                self._remove_snapshot(tenant)
            return
        seq = index.folded_seq
        if index.tombstones:
            index.rebuild()
        self._save_one(tenant, database_id, seq)

    def forget(self, tenant: str) -> None:
        """Drop a tenant's index and its snapshot: nothing of its vectors stays."""
        with self._files:
            with self._lock:
                self._let_go(tenant)
            self._remove_snapshot(tenant)
        if self.far is not None:
            self.far.forget(tenant)

    def keep_snapshots_of(self, tenants: Container[str]) -> None:
        """Remove the snapshots of all others: of tenants that were forgotten while this process was away."""
        with self._files:
            for tenant in self._snapshots.tenants():
                if tenant not in tenants:
                    self._snapshots.remove(tenant)

    def close(self, timeout_s: float = 30.0) -> bool:
        """End what works beside the follower. False if that took longer than `timeout_s` seconds."""
        if self.far is not None and not self.far.stop(timeout_s):
            return False
        published = self.publisher is None or self.publisher.stop(timeout_s)
        return self.rebuilder.stop(timeout_s) and published

    def _save_one(self, tenant: str, database_id: str, seq: int) -> bool:
        with self._files:
            with self._lock:
                index = self._resident.get(tenant)
            if index is None or self._saved.get(tenant) == (index, index.changes):
                return False
            if index.tainted and len(index):
                self._remove_snapshot(tenant)
                if len(index) > _REBUILT_AT_ONCE:
                    self.rebuilder.ask(index)
                    return False
                index.rebuild()
            changes = index.changes
            if not len(index):
                self._remove_snapshot(tenant)
                self._saved[tenant] = (index, changes)
                return False
            seal = Seal(tenant, database_id, self._seal_version, self.dimensions, seq, len(index))
            if self._snapshots.save(seal, index.to_bytes()):
                self._saved[tenant] = (index, changes)
                if self.publisher is not None:
                    self.publisher.ask(replace(seal, seq=_ANY_SEQ, count=0))
                return True
            return False

    def _remove_snapshot(self, tenant: str) -> None:
        self._snapshots.remove(tenant)
        if self._shared is not None:
            self._shared.remove(tenant)

    def _found(self, wanted: Seal) -> tuple[Path, Seal] | None:
        """In this folder; first fetched to it, where what is published is much fresher."""
        found = self._snapshots.find(wanted)
        if self._shared is None:
            return found
        try:
            seal = self._shared.seal(wanted)
            if seal is None or (found is not None and seal.seq < found[1].seq + _WORTH_FETCHING):
                return found
            fetched = self._shared.graph(wanted)
        except (StoreError, OSError) as error:
            log.warning("index_snapshot_not_fetched", tenant=wanted.tenant, error=error)
            return found
        if fetched is None:
            return found
        self._snapshots.save(*fetched)
        return self._snapshots.find(wanted)

    @property
    def _seal_version(self) -> str:
        return f"{self.version} bf16 cos {CONNECTIVITY} {EXPANSION_ADD}"

    def _from_snapshot(self, tenant: str, source: ExampleBank) -> tuple[TenantIndex, int]:
        wanted = Seal(tenant, source.database_id(), self._seal_version, self.dimensions, source.last_seq(), 0)
        found = self._found(wanted)
        if found is not None:
            path, seal = found
            graph = new_usearch_index(self.dimensions)
            graph.load(str(path))
            if len(graph) == seal.count and graph.ndim == self.dimensions:
                index = TenantIndex(self.dimensions, graph, seal.seq)
                self._saved[tenant] = (index, index.changes)
                return index, seal.seq
            log.warning("index_snapshot_not_used", tenant=tenant, vectors=len(graph))
        return TenantIndex(self.dimensions), 0

    def _index_to_fold(self, tenant: str) -> TenantIndex | None:
        with self._lock:
            self._empty.pop(tenant, None)
            index = self._resident.get(tenant)
        if index is not None or not self.has_room():
            return index
        if self._source is not None:
            self.load(tenant)
        else:
            with self._lock:
                self._resident[tenant] = TenantIndex(self.dimensions)
        with self._lock:
            return self._resident.get(tenant)

    def _take_in(self, index: TenantIndex, change: Change) -> None:
        if change.seq <= index.folded_seq:
            return
        index.folded_seq = change.seq
        if change.removed or change.vector is None or change.embedding_version != self.version:
            index.remove(change.id, erase=change.erase)
            return
        try:
            vector = checked(change.vector, self.dimensions)
        except BadVector as problem:
            self.refused += 1
            index.remove(change.id)
            log.warning("example_not_indexed", example=change.id, problem=str(problem))
        else:
            index.add(change.id, vector)


def _bytes_of(index: TenantIndex, dimensions: int) -> int:
    """About what an index takes in memory: bfloat16 vectors, their links, and 60 KiB."""
    return _bytes_at(len(index) + index.tombstones, dimensions)


def _bytes_at(count: int, dimensions: int) -> int:
    return 60 * 1024 + count * (2 * dimensions + 256)


class Rebuilder(BusyThread[TenantIndex]):
    """Rebuilds worn graphs beside the follower. What waits when it is stopped keeps its old graph."""

    name = "index-rebuilder"

    def __init__(self) -> None:
        super().__init__()
        self.rebuilt = 0
        """Graphs rebuilt so far."""

    def _do(self, what: TenantIndex) -> None:
        if self._stopping or not (what.tombstones or what.tainted):
            # It was asked for while it was at work.
            return
        try:
            self.rebuilt += what.rebuild(lambda: self._stopping)
        except Exception as error:
            log.error("index_rebuild_failed", error=error)
