"""The learner: one process beside the workers that trains new versions. Workers never train.

It reads a log, trains, compares with the version in use and publishes; workers follow within a second. It may be killed
at any moment: what is published is complete, and an interrupted training is repeated. What differs between kinds is what
they are trained from: a subclass says if there may be something new, and what is due.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from store.jobs.leases import LeaseOver
from store.learned.artifacts import ArtifactBroken, Artifacts
from store.records import ArtifactRecord

log = structlog.get_logger(__name__)

Place = tuple[str, str, str]
"""Kind, tenant, and what of it: a served model, or one of its tasks."""


@dataclass(frozen=True, slots=True)
class Trained:
    """The result of a training."""

    data: bytes
    """The artifact's bytes."""
    metrics: dict[str, Any]
    """Plain JSON."""
    accepted: bool
    """True if it is better than the version in use, or as good and newer."""
    reason: str


@dataclass(frozen=True, slots=True)
class Incumbent:
    """The version in use, with which a new one is compared."""

    data: bytes
    metrics: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tried:
    """The latest training of a place by this process."""

    known: Any
    """The rows it was trained on, as the subclass counts."""
    active: bool = False
    """True if the latest version of it was taken into use."""


@dataclass(frozen=True, slots=True)
class Due:
    """A training that is due."""

    train: Callable[[Incumbent | None], Trained | None]
    """Blocks for seconds or minutes; None if there is nothing to learn."""
    known: Any
    outcomes: int
    rival: ArtifactRecord | None
    """The version to be compared with, and the new one's parent."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """The figures that are kept with the version beside what the training tells."""


IsDue = Callable[[ArtifactRecord | None, Tried | None], Due | None]
"""From the version in use and the latest try to what is due."""


class Learner(ABC):
    """Trains whatever is due, one place after the other."""

    def __init__(self, artifacts: Artifacts, stopping: Callable[[], bool]) -> None:
        self._artifacts = artifacts
        self._stopping = stopping
        self._seen: Any = None
        self._tried: dict[Place, Tried] = {}

    @abstractmethod
    def news(self) -> Any:
        """Another value whenever something may be due that was not."""

    @abstractmethod
    def places(self) -> Iterable[tuple[Place, IsDue]]:
        """Everything that may be trained, and what says whether it is due."""

    def step(self) -> list[ArtifactRecord]:
        """Trains what is due and returns what was published. Takes microseconds when there is nothing new."""
        news = self.news()
        if self._seen == (news, self._artifacts.generation()):
            return []
        published: list[ArtifactRecord] = []
        for place, is_due in self.places():
            if self._stopping():
                return published
            record = self._step(place, is_due)
            published += [record] if record is not None else []
        # What this step published is not news to it; what arrived meanwhile is.
        self._seen = (news, self._artifacts.generation())
        return published

    def _step(self, place: Place, is_due: IsDue) -> ArtifactRecord | None:
        kind, tenant, model = place
        tried = self._tried.get(place)
        try:
            due = is_due(self._artifacts.active(*place), tried)
            if due is None:
                return None
            self._tried[place] = Tried(due.known, tried is not None and tried.active)
            return self._publish(place, due)
        except LeaseOver:
            # Whoever holds it now trains; or this process, should it hold it again.
            self._tried.pop(place, None)
            raise
        except Exception as error:
            # One tenant's bad rows must not keep the others from learning.
            log.error("training_failed", kind=kind, tenant=tenant, model=model, error=error)
            return None

    def _publish(self, place: Place, due: Due) -> ArtifactRecord | None:
        kind, tenant, model = place
        began = time.monotonic()
        trained = due.train(self._incumbent(due.rival))
        if trained is None:
            return None
        seconds = round(time.monotonic() - began, 3)
        record = self._artifacts.publish(
            *place,
            trained.data,
            metrics={**trained.metrics, **due.metrics, "outcomes": due.outcomes, "seconds": seconds},
            parent=due.rival.id if due.rival else None,
            note=trained.reason,
            state="active" if trained.accepted else "rejected",
        )
        self._tried[place] = Tried(due.known, trained.accepted)
        log.info(
            "artifact_published",
            kind=kind,
            id=record.id,
            tenant=tenant,
            model=model,
            state=record.state,
            reason=trained.reason,
            outcomes=due.outcomes,
        )
        return record

    def _incumbent(self, rival: ArtifactRecord | None) -> Incumbent | None:
        if rival is None:
            return None
        try:
            return Incumbent(self._artifacts.read(rival), rival.metrics)
        except ArtifactBroken as error:
            log.error("artifact_broken", kind=rival.kind, id=rival.id, model=rival.model, error=error)
            return None
