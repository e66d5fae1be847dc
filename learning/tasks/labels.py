"""Turns what is said of an answer afterwards into labels: a correction is one, approval confirms the one that was given.

An answer that was found wrong, without a better one, is a label no more. A person's word outweighs the teacher's. Where a
small engine answered and a comparison asked the teacher, too, what the teacher said is the label.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from learning.outcomes.feedback import UserFeedback
from router.tasks.form import read
from store.records import GOOD_QUALITY, TaskAnswer
from store.store import Tasks
from store.tasks.answers import PERSONS_WEIGHT

_WRITE_S = 30.0
_APPROVAL_WEIGHT = 3.0
"""A thumb up counts as so many of the teacher's labels: less than a correction, which says more."""
_BAD_QUALITY = 0.5


@dataclass(frozen=True, slots=True)
class GivenLabels:
    """Labels requests of tasks by feedback and by comparisons. Every call blocks."""

    tasks: Tasks

    def knows(self, tenant: str, request_id: str) -> bool:
        """Tell if the request belonged to a task and is kept: then a correction needs no messages to teach something."""
        return self.tasks.answers.of_request(tenant, request_id) is not None

    def said(self, tenant: str, request_id: str, feedback: UserFeedback) -> None:
        """Learn from feedback on a request; nothing if it belonged to no task. Raises what writing raises."""
        row = self.tasks.answers.of_request(tenant, request_id)
        if row is None:
            return
        if feedback.correction:
            self._label(tenant, request_id, self._read(row, feedback.correction))
            return
        qualities = feedback.qualities().values()
        quality = sum(qualities) / len(qualities) if qualities else None
        given = self._given(row)
        if quality is not None and quality >= GOOD_QUALITY and given is not None:
            self._label(tenant, request_id, given, _APPROVAL_WEIGHT)
        elif quality is not None and quality < _BAD_QUALITY and row.answered_by not in ("other", "sample"):
            self._label(tenant, request_id, None)

    def teacher_said(self, tenant: str, request_id: str, text: str) -> bool:
        """Learn what the teacher says to a request that another engine answered; False if no answer to it is kept, or not
        yet. Raises what writing raises."""
        answers = self.tasks.answers
        row = answers.of_request(tenant, request_id)
        # A person who was faster knows better.
        label = self._read(row, text) if row is not None and row.answered_by == "other" else None
        if label is not None:
            at_s = time.time()
            answers.label(tenant, request_id, label, at_s=at_s, weight=1.0, by="sample").result(_WRITE_S)
        return row is not None

    def _given(self, row: TaskAnswer) -> str | None:
        """The label that the client got; None if it got none, or that is not known."""
        if row.answered_by == "student":
            return row.student_label
        if row.answered_by == "other":
            return self._read(row, row.answer) if row.answer else None
        return row.label if row.answered_by != "sample" else None

    def _label(self, tenant: str, request_id: str, label: str | None, weight: float = PERSONS_WEIGHT) -> None:
        self.tasks.answers.label(tenant, request_id, label, at_s=time.time(), weight=weight).result(_WRITE_S)

    def _read(self, row: TaskAnswer, text: str) -> str | None:
        """The label that a text is, of the row's task."""
        model, _, name = row.slot.rpartition("/")
        rows = self.tasks.known.all(tenant=row.tenant, name=name)
        found = read(text, next((known.labels for known in rows if known.model == model), ()))
        return found[0] if found is not None else None
