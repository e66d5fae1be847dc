"""Opens what is published, in every worker: a new version is in use within a second, and nobody waits for one.

One thread polls for new versions and reads files; a request only reads a dictionary. A version that cannot be opened is
counted, logged and passed over, so that the next best is used. A version that several tenants use is opened once.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import structlog

from store.changes import LOOK_EVERY_S, Follower
from store.learned.artifacts import Artifacts
from store.records import ArtifactRecord

log = structlog.get_logger(__name__)

_CLOSED_AFTER_S = 1.0
"""A request may still be using what is in use no more."""

T = TypeVar("T")
Slot = tuple[str, str]
"""A tenant, and what of it: a served model, or one of its tasks."""


class VersionFollower(Follower, Generic[T]):
    """Holds the published versions of those slots open that somebody asked for, the latest used of them.

    Owns everything it opened, until `stop`.
    """

    def __init__(
        self,
        name: str,
        artifacts: Artifacts,
        most: int,
        *,
        broken: Callable[[str], None] = lambda kind: None,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        """`most`: slots that are held. `broken` is called with the kind of a version that cannot be used."""
        super().__init__(name, look_every_s)
        self._artifacts = artifacts
        self._count_broken = broken
        self._most = most
        self._slots: OrderedDict[Slot, T] = OrderedDict()
        """The one last asked for at the end."""
        self._wanted: set[Slot] = set()
        self._lock = threading.Lock()
        self._seen = -1
        self._opened: dict[int, Any] = {}
        self._broken: set[int] = set()
        self._closing: list[tuple[float, Any]] = []

    @abstractmethod
    def _found(self, slot: Slot, held: T | None) -> T:
        """Find what is published for a slot now, opened by `_first`. `held`: what was found of it the last time."""

    @abstractmethod
    def _used(self, held: T) -> Iterable[int]:
        """The ids of the versions that a slot uses."""

    def ready(self, tenant: str, of: str, timeout_s: float = 5.0) -> bool:
        """Waits until a slot's versions are as published, and returns whether they are. For tests and tools."""

        def there() -> bool:
            return self._asked((tenant, of)) is not None and self._seen == self._artifacts.generation()

        return self._waited(there, timeout_s)

    def stop(self, timeout_s: float | None = None) -> bool:
        """Looks no more, and closes what was opened."""
        ended = super().stop(timeout_s)
        self._closing += [(0.0, thing) for thing in self._opened.values()]
        self._opened.clear()
        self._close(after_s=0.0)
        return ended

    def look(self) -> None:
        """See Follower."""
        generation = self._artifacts.generation()
        with self._lock:
            wanted, self._wanted = self._wanted, set()
            stale = list(self._slots) if generation != self._seen else []
            held = dict(self._slots)
        for slot in {*wanted, *stale}:
            found = self._found(slot, held.get(slot))
            with self._lock:
                self._slots[slot] = found
                if len(self._slots) > self._most:
                    self._slots.popitem(last=False)
        self._seen = generation
        if wanted or stale:
            self._let_go()
        self._close(_CLOSED_AFTER_S)

    def _asked(self, slot: Slot) -> T | None:
        """Return what is held of a slot; None until it was looked for, which is soon. Never waits."""
        with self._lock:
            held = self._slots.get(slot)
            if held is None:
                self._wanted.add(slot)
            else:
                self._slots.move_to_end(slot)
        if held is None:
            self.notify()
        return held

    def _first(
        self, records: Sequence[ArtifactRecord], opened: Callable[[ArtifactRecord], Any], most: int = 1
    ) -> list[tuple[int, Any]]:
        """(id, what was opened) of the first versions that can be used, `most` of them."""
        found: list[tuple[int, Any]] = []
        for record in records:
            if len(found) < most and self._usable(record, opened):
                found.append((record.id, self._opened[record.id]))
        return found

    def _usable(self, record: ArtifactRecord, opened: Callable[[ArtifactRecord], Any]) -> bool:
        if record.id in self._opened:
            return True
        if record.id in self._broken:
            return False
        try:
            self._opened[record.id] = opened(record)
        except Exception as error:
            # Any exception: one tenant's version must not keep the others from theirs.
            self._broken.add(record.id)
            self._count_broken(record.kind)
            log.error("artifact_broken", kind=record.kind, id=record.id, model=record.model, error=error)
            return False
        return True

    def _let_go(self) -> None:
        with self._lock:
            used = {id for held in self._slots.values() for id in self._used(held)}
        for id in self._opened.keys() - used:
            self._closing.append((time.monotonic(), self._opened.pop(id)))

    def _close(self, after_s: float) -> None:
        until = time.monotonic() - after_s
        for since, thing in [each for each in self._closing if each[0] <= until]:
            self._closing.remove((since, thing))
            if hasattr(thing, "close"):
                thing.close()


def say_in_use(kind: str, slot: Slot, before: int | None, now: int | None) -> None:
    """Log which version is in use, where that changed."""
    tenant, of = slot
    if now is not None and now != before:
        log.info("artifact_in_use", kind=kind, id=now, tenant=tenant, model=of)
    elif now is None and before is not None:
        log.info("artifact_out_of_use", kind=kind, id=before, tenant=tenant, model=of)
