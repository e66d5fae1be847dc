"""Trains the students of every task from its labels, in the learner's process: anew, from scratch, after
so many new ones and when a schedule says.

A version is published when it is not worse than the one in use on the labels that came since. It may be killed at any
moment: what is published is complete.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog

from learning.tasks.training import KINDS, Kind, Labelled, TooFew, TrainedStudent, faded, train
from router.tasks.form import Form, normalised, read, usual
from store.jobs.leases import LeaseOver
from store.learned.artifacts import ArtifactBroken, Artifacts
from store.records import ArtifactRecord, TaskAnswer
from store.tasks.answers import TaskAnswers

log = structlog.get_logger(__name__)

KIND = "student"
_FEWEST = 20
"""Labels before a first student is tried."""
_FORMS_READ = 200
"""Of the newest answers, in whose form a student answers."""


@dataclass(frozen=True, slots=True)
class StudentPace:
    """When and on what students are trained."""

    most_labels: int = 20_000
    """Latest labels trained on."""
    half_life_labels: float = 5_000
    """Newer labels after which one counts half; 0: none fades by number."""
    half_life_s: float = 0.0
    """Age at which a label counts half; 0: none fades by age."""
    warm: bool = False
    """Whether a network goes on from the version in use, with fewer rounds."""
    kinds: tuple[Kind, ...] = KINDS


@dataclass(frozen=True, slots=True)
class Due:
    """What is known of a task beside its answers."""

    every: int
    """New labels after which its student is trained anew."""
    labels: tuple[str, ...] = ()
    """Those that were declared."""
    tick_s: float | None = None
    """When it was last to be trained by its schedule, whatever is new; None without a schedule."""


class StudentLearner:
    """Trains whatever is due, one task after the other."""

    def __init__(
        self,
        answers: TaskAnswers,
        artifacts: Artifacts,
        due: Callable[[str, str], Due | None],
        pace: StudentPace,
        *,
        stopping: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`due` is called with a tenant and a task's slot; None where nothing is to be learnt of it."""
        self._answers = answers
        self._artifacts = artifacts
        self._due = due
        self._pace = pace
        self._stopping = stopping
        self._clock = clock
        self._seen = (-1, -1, -1)
        self._tried: dict[tuple[str, str], tuple[int, int]] = {}
        """By tenant and slot, at the last training: the place in the log, and how many labels there were up to it."""

    def step(self) -> list[ArtifactRecord]:
        """Trains what is due and returns what was published. Takes microseconds when no label is new and the minute the
        same."""
        seen = (self._answers.last_id(), self._artifacts.generation(), int(self._clock() // 60))
        if seen == self._seen:
            return []
        published: list[ArtifactRecord] = []
        for tenant, slot, _ in self._answers.slots():
            if self._stopping():
                return published
            try:
                record = self._train_if_due(tenant, slot)
            except LeaseOver:
                raise
            except Exception as error:
                # One task's odd rows must not keep the others from learning.
                log.error("training_failed", kind=KIND, tenant=tenant, model=slot, error=error)
                continue
            published += [record] if record is not None else []
        self._seen = (seen[0], self._artifacts.generation(), seen[2])
        return published

    def _train_if_due(self, tenant: str, slot: str) -> ArtifactRecord | None:
        due = self._due(tenant, slot)
        if due is None:
            return None
        active = self._artifacts.active(KIND, tenant, slot)
        until, count = self._tried.get((tenant, slot), (0, 0))
        if active is not None:
            known = int(active.metrics.get("until_id", 0)), int(active.metrics.get("outcomes", 0))
            until, count = max((until, count), known)
        total, new = self._answers.labelled(tenant, slot), self._answers.labelled(tenant, slot, until)
        # A version that knows what was deleted since gives way to one that does not, however good it is.
        forgotten = total - new < count
        scheduled = due.tick_s is not None and self._answers.labelled(tenant, slot, until, due.tick_s) > 0
        if total < _FEWEST or not (new >= due.every or forgotten or scheduled):
            return None
        return self._train(tenant, slot, due, active, total, compared=not forgotten)

    def _train(
        self, tenant: str, slot: str, due: Due, active: ArtifactRecord | None, total: int, *, compared: bool
    ) -> ArtifactRecord | None:
        rows = self._answers.training_rows(tenant, slot, self._pace.most_labels)
        until = max(row.id for row in rows)
        self._tried[tenant, slot] = (until, total)
        began = time.monotonic()
        usable = _usable(rows, due.labels)
        try:
            trained = self._trained(usable, active if compared else None)
        except TooFew:
            return None
        record = self._artifacts.publish(
            KIND,
            tenant,
            slot,
            trained.data,
            metrics={
                **trained.metrics,
                "outcomes": total,
                "until_id": until,
                "until_s": max(row.at_s for row in rows),
                "seconds": round(time.monotonic() - began, 3),
            },
            parent=active.id if active else None,
            note=trained.reason,
            state="active" if trained.accepted else "rejected",
        )
        log.info(
            "artifact_published",
            kind=KIND,
            id=record.id,
            tenant=tenant,
            model=slot,
            state=record.state,
            reason=trained.reason,
            outcomes=total,
        )
        return record

    def _trained(self, rows: Sequence[TaskAnswer], active: ArtifactRecord | None) -> TrainedStudent:
        labelled = [
            Labelled(row.input, row.vector, row.label, row.weight, row.soft, row.at_s)
            for row in rows
            if row.vector is not None and row.label is not None
        ]
        weights = faded(
            labelled, half_life_labels=self._pace.half_life_labels, half_life_s=self._pace.half_life_s
        )
        before = self._read(active)
        return train(
            [replace(row, weight=weight) for row, weight in zip(labelled, weights, strict=True)],
            seed=0,
            warm=before if self._pace.warm else None,
            incumbent=before,
            incumbent_until_s=float(active.metrics.get("until_s", 0.0)) if active else 0.0,
            form=form_of(rows),
            embedding_version=rows[-1].embedding_version if rows else "",
            kinds=self._pace.kinds,
        )

    def _read(self, active: ArtifactRecord | None) -> bytes | None:
        if active is None:
            return None
        try:
            return self._artifacts.read(active)
        except ArtifactBroken as error:
            log.error("artifact_broken", kind=KIND, id=active.id, model=active.model, error=error)
            return None


def form_of(rows: Sequence[TaskAnswer]) -> Form:
    """The form in which the teacher wrote most of its newest labels."""
    found = (read(row.answer, (row.label,)) for row in rows[::-1] if row.answer and row.label is not None)
    newest = [one[1] for one, _ in zip((f for f in found if f is not None), range(_FORMS_READ), strict=False)]
    return usual(newest)


def _usable(rows: Sequence[TaskAnswer], declared: Sequence[str]) -> list[TaskAnswer]:
    """Rows with vectors of the embedder of now, without what one end user alone was told.

    A label that nobody declared may hold an end user's own words: the others are not given it before the teacher gave it
    for inputs of two.
    """
    version = next((row.embedding_version for row in rows[::-1] if row.vector is not None), "")
    known = {normalised(label) for label in declared}
    users: defaultdict[str, set[str]] = defaultdict(set)
    shared = set(known)
    for row in rows:
        plain = normalised(row.label or "")
        users[plain].add(row.end_user)
        # A correction is a word of its end user, too, whoever wrote it.
        if not row.end_user or len(users[plain]) > 1:
            shared.add(plain)
    return [
        row
        for row in rows
        if row.vector is not None
        and row.embedding_version == version
        and normalised(row.label or "") in shared
    ]
