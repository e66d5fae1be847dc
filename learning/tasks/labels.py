"""Turns what people say of an answer into labels: a correction is the label, approval confirms the one that was given.

An answer that was found wrong, without a better one, is a label no more. A person's word outweighs the teacher's.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from learning.outcomes.feedback import UserFeedback
from router.tasks.form import read
from store.records import GOOD_QUALITY
from store.store import Tasks

_WRITE_S = 30.0
_APPROVAL_WEIGHT = 3.0
"""A thumb up counts as so many of the teacher's labels: less than a correction, which says more."""
_BAD_QUALITY = 0.5


@dataclass(frozen=True, slots=True)
class PersonsLabels:
    """Labels requests of tasks by feedback. Every call blocks."""

    tasks: Tasks

    def knows(self, tenant: str, request_id: str) -> bool:
        """Whether the request belonged to a task and is kept: then a correction needs no messages to teach something."""
        return self.tasks.answers.of_request(tenant, request_id) is not None

    def said(self, tenant: str, request_id: str, feedback: UserFeedback) -> None:
        """Learn from feedback on a request; nothing where it belonged to no task. Raises what writing raises."""
        row = self.tasks.answers.of_request(tenant, request_id)
        if row is None:
            return
        if feedback.correction:
            found = read(feedback.correction, self._declared(tenant, row.slot))
            self._label(tenant, request_id, found[0] if found is not None else None)
            return
        qualities = feedback.qualities().values()
        quality = sum(qualities) / len(qualities) if qualities else None
        given = row.student_label if row.answered_by == "student" else row.label
        if quality is not None and quality >= GOOD_QUALITY and given is not None:
            self._label(tenant, request_id, given, _APPROVAL_WEIGHT)
        elif quality is not None and quality < _BAD_QUALITY:
            self._label(tenant, request_id, None)

    def _label(self, tenant: str, request_id: str, label: str | None, weight: float | None = None) -> None:
        more = {} if weight is None else {"weight": weight}
        self.tasks.answers.label(tenant, request_id, label, at_s=time.time(), **more).result(_WRITE_S)

    def _declared(self, tenant: str, slot: str) -> tuple[str, ...]:
        model, _, name = slot.rpartition("/")
        rows = self.tasks.known.all(tenant=tenant, name=name)
        return next((row.labels for row in rows if row.model == model), ())
