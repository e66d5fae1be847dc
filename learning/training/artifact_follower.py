"""Keeps the scorers and bandits open that a worker decides with, and the shares that quality floors leave.

Until a tenant's versions are read its requests are decided with the prior.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from learning.learned.follower import Slot, VersionFollower, say_in_use
from learning.training.artifact_openers import ArtifactOpeners
from router.examples.scorer import Scorer
from router.policies.in_context import LearnedModels
from store.changes import LOOK_EVERY_S
from store.learned.artifacts import Artifacts
from store.records import ArtifactRecord

_KEPT = 64
"""Largest number of (tenant, served model) pairs held per worker; a scorer takes a few megabytes."""


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
class _Held:
    """The versions of one tenant and served model."""

    ids: Mapping[str, int]
    """By kind."""
    learned: LearnedModels


class ArtifactFollower(VersionFollower[_Held]):
    """Opens the tenant's own version, else the operator's for the model, else the operator's for any model."""

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
        """`prior` scores before anything is trained; it is closed with the rest."""
        super().__init__("learned", artifacts, _KEPT, broken=broken, look_every_s=look_every_s)
        self._openers = openers
        self._prior = prior
        self._floors = floors
        self._default = LearnedModels(
            scorer=prior,
            offload_cap=floors.unproven if floors else 1.0,
            version="prior" if prior else "none",
        )

    def stop(self, timeout_s: float | None = None) -> bool:
        """Looks no more, and closes every scorer. Later requests are decided without scores."""
        ended = super().stop(timeout_s)
        if self._prior is not None:
            self._prior.close()
        return ended

    def of(self, tenant: str, model: str) -> LearnedModels:
        """The models to decide this tenant's requests for a served model with. Never waits: see the module."""
        held = self._asked((tenant, model))
        return held.learned if held is not None else self._default

    def look(self) -> None:
        """See Follower."""
        super().look()
        if self._floors is None:
            return
        with self._lock:
            every = list(self._slots.items())
        for slot, held in every:
            cap = self._floors.cap(*slot)
            if held.learned.offload_cap != cap:
                held.learned = replace(held.learned, offload_cap=cap)

    def _found(self, slot: Slot, held: _Held | None) -> _Held:
        bandit_id, bandit = self._best("bandit", slot, held, self._openers.bandit) or (0, None)
        scorer_id, scorer = self._best("scorer", slot, held, self._openers.scorer) or (0, self._prior)
        ids = {kind: id for kind, id in (("bandit", bandit_id), ("scorer", scorer_id)) if id}
        cap = self._floors.cap(*slot) if self._floors else 1.0
        version = "+".join(f"{kind}-{id}" for kind, id in ids.items()) or self._default.version
        return _Held(ids, LearnedModels(scorer, bandit, cap, version))

    def _best(
        self, kind: str, slot: Slot, held: _Held | None, opened: Callable[[ArtifactRecord], Any]
    ) -> tuple[int, Any] | None:
        found = self._first(self._candidates(kind, *slot), opened)
        before, now = held.ids.get(kind) if held else None, found[0][0] if found else None
        say_in_use(kind, slot, before, now)
        return found[0] if found else None

    def _used(self, held: _Held) -> Iterable[int]:
        return held.ids.values()

    def _candidates(self, kind: str, tenant: str, model: str) -> Sequence[ArtifactRecord]:
        slots = dict.fromkeys(((tenant, model), ("", model), ("", "")))
        found = (self._artifacts.active(kind, whose, which) for whose, which in slots)
        return [record for record in found if record is not None]
