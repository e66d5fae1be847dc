"""Opens the artifacts that the learner publishes: a worker uses a new version within a second, and never waits for one.

One thread polls for new versions and reads files; a request only reads a dictionary. While a tenant's versions are being
read its requests are decided with the prior. A broken version is skipped, counted and logged, and the next best one is used.
A version that several tenants use is opened once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import structlog

from learning.poller import LOOK_EVERY_S, Slot, VersionPoller
from learning.training.artifact_openers import ArtifactOpeners
from router.examples.scorer import Scorer
from router.policies.in_context import LearnedModels
from store.learned.artifacts import Artifacts
from store.records import ArtifactRecord

log = structlog.get_logger(__name__)

_KEPT = 64
"""Largest number of (tenant, served model) pairs held per worker; a scorer takes a few megabytes."""

T = TypeVar("T")


class FloorCaps(Protocol):
    """The shares of requests that the quality floors allow to be offloaded, by tenant and served model."""

    @property
    def unproven(self) -> float:
        """The share for a tenant whose account was not read yet."""
        ...

    def cap(self, tenant: str, model: str) -> float:
        """The share, 0 to 1."""
        ...


@dataclass(slots=True)
class _Held(Generic[T]):
    """An opened version, and the number of slots that use it."""

    record: ArtifactRecord
    thing: T
    users: int = 0


@dataclass(slots=True)
class _Slot:
    """The versions of one tenant and served model."""

    held: dict[str, _Held[Any]] = field(default_factory=dict)
    broken: set[int] = field(default_factory=set)
    learned: LearnedModels = field(default_factory=LearnedModels)


class ArtifactFollower(VersionPoller[_Slot]):
    """Polls on its own thread between `start` and `stop`, and owns every scorer it opened."""

    def __init__(
        self,
        artifacts: Artifacts,
        openers: ArtifactOpeners,
        *,
        prior: Scorer | None,
        floors: FloorCaps | None = None,
        broken: Callable[[str], None] = lambda kind: None,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        """`prior` scores before anything is trained; it is closed with the rest. `broken` is called with the kind of a
        version that cannot be used."""
        super().__init__("learned", artifacts, _KEPT, look_every_s)
        self._openers = openers
        self._prior = prior
        self._floors = floors
        self._count_broken = broken
        self._default = LearnedModels(
            scorer=prior,
            offload_cap=floors.unproven if floors else 1.0,
            version="prior" if prior else "none",
        )
        self._opened: dict[int, _Held[Any]] = {}
        self._closing: list[tuple[float, Scorer]] = []

    def stop(self) -> None:
        """Ends the thread and closes every scorer. Later requests are decided without scores."""
        super().stop()
        for slot in list(self._slots.values()):
            self._retire(slot)
        for _, scorer in self._closing:
            scorer.close()
        if self._prior is not None:
            self._prior.close()

    def of(self, tenant: str, model: str) -> LearnedModels:
        """The models to decide this tenant's requests for a served model with. Never waits: see the module."""
        slot = self._asked((tenant, model))
        return slot.learned if slot is not None else self._default

    def ready(self, tenant: str, model: str, timeout_s: float = 5.0) -> bool:
        """Waits until a tenant's versions are in use, and returns whether they are. For tests and tools."""
        return self._is_ready((tenant, model), timeout_s)

    def look(self) -> None:
        """See Poller."""
        with self._lock:
            known = list(self._slots)
        super().look()
        if self._floors is not None:
            self._refresh_caps(known, self._floors)
        now = time.monotonic()
        for since, scorer in [c for c in self._closing if now - c[0] > 1.0]:
            self._closing.remove((since, scorer))
            scorer.close()

    def _refresh(self, key: Slot) -> None:
        tenant, model = key
        with self._lock:
            slot = self._slots.get(key) or _Slot()
        self._use_best(slot, "scorer", tenant, model, self._openers.scorer)
        self._use_best(slot, "bandit", tenant, model, self._openers.bandit)
        versions = [f"{kind}-{held.record.id}" for kind, held in sorted(slot.held.items())]
        slot.learned = LearnedModels(
            scorer=slot.held["scorer"].thing if "scorer" in slot.held else self._prior,
            bandit=slot.held["bandit"].thing if "bandit" in slot.held else None,
            offload_cap=self._floors.cap(tenant, model) if self._floors else 1.0,
            version="+".join(versions) or self._default.version,
        )
        with self._lock:
            full = key not in self._slots and len(self._slots) >= self._slots.maxsize
            oldest = self._slots.popitem()[1] if full else None
            self._slots[key] = slot
        if oldest is not None:
            self._retire(oldest)

    def _use_best(
        self, slot: _Slot, kind: str, tenant: str, model: str, opened: Callable[[ArtifactRecord], Any]
    ) -> None:
        """Opens the tenant's own version, else the operator's for the model, else the operator's for any model."""
        held = slot.held.get(kind)
        for record in self._candidates(kind, tenant, model):
            if held is not None and held.record.id == record.id:
                return
            if record.id in slot.broken:
                continue
            try:
                using = self._opened.get(record.id) or _Held(record, opened(record))
            except Exception as error:
                # Any exception: one tenant's version must not keep the others from theirs.
                slot.broken.add(record.id)
                self._count_broken(kind)
                log.error("artifact_broken", kind=kind, id=record.id, model=model, error=error)
                continue
            self._let_go(held)
            using.users += 1
            self._opened[record.id] = slot.held[kind] = using
            log.info("artifact_in_use", kind=kind, id=record.id, tenant=tenant, model=model)
            return
        if held is not None:
            self._let_go(slot.held.pop(kind))
            log.info("artifact_out_of_use", kind=kind, id=held.record.id, tenant=tenant, model=model)

    def _candidates(self, kind: str, tenant: str, model: str) -> Sequence[ArtifactRecord]:
        slots = dict.fromkeys(((tenant, model), ("", model), ("", "")))
        found = (self._artifacts.active(kind, whose, which) for whose, which in slots)
        return [record for record in found if record is not None]

    def _refresh_caps(self, known: Sequence[tuple[str, str]], floors: FloorCaps) -> None:
        for key in known:
            cap = floors.cap(*key)
            with self._lock:
                slot = self._slots.get(key)
            if slot is not None and slot.learned.offload_cap != cap:
                kept = slot.learned
                slot.learned = LearnedModels(kept.scorer, kept.bandit, cap, kept.version)

    def _retire(self, slot: _Slot) -> None:
        for held in slot.held.values():
            self._let_go(held)

    def _let_go(self, held: _Held[Any] | None) -> None:
        if held is None:
            return
        held.users -= 1
        if held.users == 0:
            del self._opened[held.record.id]
            if hasattr(held.thing, "close"):
                # A request may still be using it, so it is closed a second later.
                self._closing.append((time.monotonic(), held.thing))
