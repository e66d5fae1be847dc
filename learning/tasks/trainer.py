"""Trains the students of every task from its labels: anew, from scratch, after so many new ones and when a schedule says."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from learning.learned.learner import Due, Incumbent, IsDue, Learner, Place, Trained, Tried
from learning.tasks.training import KINDS, Kind, Labelled, TooFew, faded, train
from router.tasks.form import Form, normalised, read, usual
from store.learned.artifacts import Artifacts
from store.records import ArtifactRecord, TaskAnswer
from store.tasks.answers import TaskAnswers

KIND = "student"
_FEWEST = 20
"""Labels before a first student is tried."""
_FORMS_READ = 200
"""The number of the newest answers in whose form a student answers."""


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
    """True if a network goes on from the version in use, with fewer rounds."""
    kinds: tuple[Kind, ...] = KINDS


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The rhythm and the labels of a task, beside its answers."""

    every: int
    """New labels after which its student is trained anew."""
    labels: tuple[str, ...] = ()
    """Those that were declared."""
    tick_s: float | None = None
    """When it was last to be trained by its schedule, whatever is new; None without a schedule."""


class StudentLearner(Learner):
    """See Learner. A version is published when it is not worse than the one in use on the labels that came since."""

    def __init__(
        self,
        answers: TaskAnswers,
        artifacts: Artifacts,
        rhythm: Callable[[str, str], Rhythm | None],
        pace: StudentPace,
        *,
        stopping: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`rhythm` is called with a tenant and a task's slot; None if nothing is to be learnt of it."""
        super().__init__(artifacts, stopping)
        self._answers = answers
        self._rhythm = rhythm
        self._pace = pace
        self._clock = clock

    def news(self) -> tuple[int, int]:
        """See Learner."""
        return self._answers.last_id(), int(self._clock() // 60)

    def places(self) -> Iterator[tuple[Place, IsDue]]:
        """See Learner."""
        for tenant, slot, _ in self._answers.slots():
            yield (KIND, tenant, slot), partial(self._due, tenant, slot)

    def _due(self, tenant: str, slot: str, active: ArtifactRecord | None, tried: Tried | None) -> Due | None:
        rhythm = self._rhythm(tenant, slot)
        if rhythm is None:
            return None
        until, count = tried.known if tried is not None else (0, 0)
        if active is not None:
            known = int(active.metrics.get("until_id", 0)), int(active.metrics.get("outcomes", 0))
            until, count = max((until, count), known)
        total, new = self._answers.labelled(tenant, slot), self._answers.labelled(tenant, slot, until)
        # A version that knows what was deleted since gives way to one that does not, however good it is.
        forgotten = total - new < count
        scheduled = rhythm.tick_s is not None and (
            self._answers.labelled(tenant, slot, until, rhythm.tick_s) > 0
        )
        if total < _FEWEST or not (new >= rhythm.every or forgotten or scheduled):
            return None
        rows = self._answers.training_rows(tenant, slot, self._pace.most_labels)
        until = max(row.id for row in rows)

        def trained(incumbent: Incumbent | None) -> Trained | None:
            return self._trained(_usable(rows, rhythm.labels), None if forgotten else incumbent)

        metrics = {
            "until_id": until,
            "until_s": max(row.at_s for row in rows),
        }
        return Due(trained, (until, total), total, active, metrics)

    def _trained(self, rows: Sequence[TaskAnswer], incumbent: Incumbent | None) -> Trained | None:
        labelled = [
            Labelled(row.input, row.vector, row.label, row.weight, row.soft, row.at_s)
            for row in rows
            if row.vector is not None and row.label is not None
        ]
        weights = faded(
            labelled, half_life_labels=self._pace.half_life_labels, half_life_s=self._pace.half_life_s
        )
        before = incumbent.data if incumbent is not None else None
        version = rows[-1].embedding_version if rows else ""
        try:
            return train(
                [replace(row, weight=weight) for row, weight in zip(labelled, weights, strict=True)],
                seed=0,
                warm=before if self._pace.warm else None,
                incumbent=before,
                incumbent_until_s=float(incumbent.metrics.get("until_s", 0.0)) if incumbent else 0.0,
                form=form_of(rows),
                embedding_version=version,
                kinds=self._pace.kinds,
            )
        except TooFew:
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
