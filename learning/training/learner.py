"""The learner: one process beside the workers that trains new versions from outcomes. Workers never train.

It reads the log, trains, compares with the version in use and publishes; workers follow within a second. It may be killed
at any moment: what is published is complete, and an interrupted training is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from store.decisions.outcomes import Experience, Outcomes
from store.jobs.leases import LeaseOver
from store.learned.artifacts import ArtifactBroken, Artifacts
from store.records import ArtifactRecord

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Trained:
    """The result of a training."""

    data: bytes
    """The artifact's bytes."""
    metrics: Mapping[str, Any]
    accepted: bool
    """Whether it is better than the version in use, or as good and newer."""
    reason: str


@dataclass(frozen=True, slots=True)
class Incumbent:
    """The version in use, with which a new one is compared."""

    data: bytes
    metrics: Mapping[str, Any]


class Trainer(Protocol):
    """Trains one kind of artifact from experiences. Blocks for seconds or minutes."""

    @property
    def kind(self) -> str:
        """The kind of artifact, as it is published."""
        ...

    @property
    def needed(self) -> int:
        """Least number of outcomes to train on."""
        ...

    def train(self, experiences: Sequence[Experience], incumbent: Incumbent | None) -> Trained | None:
        """Trains an artifact; None where the experiences hold nothing for this kind."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How often to train, and on how many outcomes."""

    min_new_outcomes: int
    max_outcomes: int


class Learner:
    """Trains whatever is due, one tenant and served model after the other."""

    def __init__(
        self,
        outcomes: Outcomes,
        artifacts: Artifacts,
        trainers: Callable[[str], Sequence[Trainer]],
        pace: Pace,
        *,
        lenders: Callable[[str], Sequence[str]] = lambda tenant: (),
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """`trainers` returns those of a served model, none for a model that does not learn. `lenders` returns the tenants
        whose outcomes a tenant may use; nothing else is learnt across tenants."""
        self._outcomes = outcomes
        self._artifacts = artifacts
        self._trainers = trainers
        self._pace = pace
        self._lenders = lenders
        self._stopping = stopping
        self._seen = (-1, -1)
        self._tried: dict[tuple[str, str, str], int] = {}
        """Number of outcomes at the last training, by (kind, tenant, model)."""
        self._in_use: set[tuple[str, str, str]] = set()

    def step(self) -> list[ArtifactRecord]:
        """Trains what is due and returns what was published. Takes microseconds when there is no new outcome."""
        seen = (self._outcomes.last_id(), self._artifacts.generation())
        if seen == self._seen:
            return []
        known: dict[tuple[str, str], int] = {}
        for (tenant, model, _), count in self._outcomes.counts().items():
            known[tenant, model] = known.get((tenant, model), 0) + count
        published: list[ArtifactRecord] = []
        for tenant, model in known:
            lent = sum(known.get((lender, model), 0) for lender in self._lenders(tenant))
            for trainer in self._trainers(model):
                if self._stopping():
                    return published
                record = self._train_if_due(trainer, tenant, model, known[tenant, model] + lent)
                published += [record] if record is not None else []
        # What this step published is not news to it; an outcome that arrived meanwhile is.
        self._seen = (seen[0], self._artifacts.generation())
        return published

    def _train_if_due(self, trainer: Trainer, tenant: str, model: str, count: int) -> ArtifactRecord | None:
        if count < trainer.needed:
            return None
        slot = (trainer.kind, tenant, model)
        active = self._artifacts.active(*slot)
        before = self._tried.get(slot)
        if before is None and active is not None:
            before = int(active.metrics.get("outcomes", 0))
        # Beyond 200 outcomes a tenth more is needed: training on 20,000 for the sake of 20 is a waste.
        few = before is not None and abs(count - before) < max(self._pace.min_new_outcomes, before // 10)
        # A version that is gone (its outcomes were deleted, say) is trained again from what is left; one that a person took
        # out of use is not.
        gone = active is None and slot in self._in_use and not self._artifacts.versions(*slot)
        if few and not gone:
            return None
        self._tried[slot] = count
        began = time.monotonic()
        # A tenant's first version must be better than the operator's version for all tenants.
        rival = active or self._artifacts.best(*slot)
        try:
            trained = trainer.train(self._experiences(tenant, model), self._incumbent(rival))
            if trained is None:
                return None
            record = self._artifacts.publish(
                *slot,
                trained.data,
                metrics={**trained.metrics, "outcomes": count, "seconds": round(time.monotonic() - began, 3)},
                parent=rival.id if rival else None,
                note=trained.reason,
                state="active" if trained.accepted else "rejected",
            )
        except LeaseOver:
            # Whoever holds it now trains; or this process, should it hold it again.
            self._tried.pop(slot)
            raise
        except Exception as error:
            # One tenant's bad outcomes must not keep the others from learning.
            log.error("training_failed", kind=trainer.kind, tenant=tenant, model=model, error=error)
            return None
        self._in_use.discard(slot)
        if record.state == "active":
            self._in_use.add(slot)
        log.info(
            "artifact_published",
            kind=trainer.kind,
            id=record.id,
            tenant=tenant,
            model=model,
            state=record.state,
            reason=trained.reason,
            outcomes=count,
        )
        return record

    def _experiences(self, tenant: str, model: str) -> list[Experience]:
        found: list[Experience] = []
        for whose in (tenant, *self._lenders(tenant)):
            found += self._outcomes.experiences(whose, model, limit=self._pace.max_outcomes, latest=True)
        return sorted(found, key=lambda e: e.choice.at_s)[-self._pace.max_outcomes :]

    def _incumbent(self, active: ArtifactRecord | None) -> Incumbent | None:
        if active is None:
            return None
        try:
            return Incumbent(self._artifacts.read(active), active.metrics)
        except ArtifactBroken as error:
            log.error("artifact_broken", kind=active.kind, id=active.id, model=active.model, error=error)
            return None
