"""Keeps what a task's requests were answered: to train students on the teacher's labels, and to judge the students by them.

A row per answered request of a task. A teacher's answer that is no label (a refusal, an explanation) is kept without it, so
that its share can be told, and so is what another engine said: students are to agree with the reference. An input with a
secret in it is not kept at all.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator

from cachetools import LRUCache

from gateway.keepers.keeper import Kept, vector_of
from gateway.task_metrics import TaskMetrics
from router.embedding.embedder import BlockingEmbedder
from router.finished import Finished
from router.tasks.form import read
from router.tasks.matching import MOST_TASKS
from router.tasks.soft import soft_labels
from router.tasks.task import Posed
from store.admission import Admission
from store.records import AnsweredBy, TaskAnswer
from store.store import Tasks
from store.tasks.tasks import Source, TaskRow

_NOTED = 10_000


class TaskKeeper:
    """See the module. On the recorder's thread."""

    def __init__(
        self,
        tasks: Tasks,
        embedder: BlockingEmbedder,
        admission: Admission,
        *,
        opted_out_keys: Collection[str] = (),
        metrics: TaskMetrics | None = None,
    ) -> None:
        self._tasks = tasks
        self._embedder = embedder
        self._admission = admission
        self._opted_out_keys = frozenset(opted_out_keys)
        self._metrics = metrics
        self._noted: LRUCache[tuple[str, str], bool] = LRUCache(_NOTED)
        """Tasks that this process has listed."""

    def keep(self, finished: Finished) -> Iterator[Kept]:
        """See Keeper."""
        plan, assembled = finished.plan, finished.assembled
        if self._metrics is not None:
            self._metrics.ended(finished)
        if plan is None or plan.posed is None or finished.attempt is None:
            return
        refusal = self._refusal(finished)
        if refusal or assembled is None:
            yield "task", refusal or "incomplete"
            return
        posed, prediction = plan.posed, plan.prediction
        label, unread, soft, answer = None, "", None, ""
        if not finished.by_student:
            label, unread, soft, answer = _read(finished, posed)
            if not finished.from_reference:
                # It teaches nothing by itself, but may be found right, or its request be labelled.
                label, unread, soft = None, "", None
            elif self._metrics is not None:
                self._metrics.taught(posed, label, prediction.label if prediction is not None else None)
        verdict = self._admission.screened(posed.input, answer)
        if not verdict.admitted:
            yield "task", verdict.reason or "refused"
            return
        if verdict.answer != answer:
            label, soft, answer = None, None, ""
            unread = "private_data" if finished.from_reference else ""
        self._note(posed)
        by: AnsweredBy = (
            "student" if finished.by_student else "teacher" if finished.from_reference else "other"
        )
        yield (
            "task",
            self._tasks.answers.record(
                TaskAnswer(
                    tenant=finished.arrival.tenant,
                    slot=posed.task.slot,
                    request_id=finished.arrival.id,
                    at_s=finished.arrival.started_at_s,
                    answered_by=by,
                    input=verdict.question,
                    label=label,
                    unread=unread,
                    answer=answer,
                    soft=soft,
                    student_label=prediction.label if prediction is not None else None,
                    confidence=prediction.confidence if prediction is not None else None,
                    version=prediction.version if prediction is not None else None,
                    checked=plan.checked,
                    contributor=finished.asked.contributor,
                    end_user=finished.asked.end_user,
                    # One of the unredacted text would give away what was replaced.
                    vector=vector_of(plan, verdict.question, self._embedder.embed_blocking),
                    embedding_version=self._embedder.version,
                )
            ),
        )

    def _refusal(self, finished: Finished) -> str:
        if finished.asked.controls.no_store:
            return "opted_out"
        if finished.arrival.key_id in self._opted_out_keys:
            return "opted_out_key"
        if not finished.remember:
            return "opted_out_model"
        if not 200 <= finished.status < 300:
            return "error"
        return "" if finished.complete else "incomplete"

    def _note(self, posed: Posed) -> None:
        """List a task that was met: the command line and the admin pages show what is listed."""
        task = posed.task
        if (task.tenant, task.slot) in self._noted:
            return
        source: Source = posed.source  # type: ignore[assignment]
        # What the configuration declares is listed whatever else there is.
        most = 2**31 if source == "configured" else MOST_TASKS
        row = TaskRow(
            task.tenant,
            task.model,
            task.name,
            source,
            scope=posed.scope,
            labels=task.labels,
            at_s=time.time(),
        )
        self._tasks.known.add(row, most=most)
        self._noted[task.tenant, task.slot] = True


def _read(finished: Finished, posed: Posed) -> tuple[str | None, str, dict[str, float] | None, str]:
    """The teacher's label, why there is none, its probabilities, and its text."""
    assembled, labels = finished.assembled, posed.task.labels
    choices = assembled.choices() if assembled is not None else []
    if assembled is None or len(choices) != 1 or not assembled.whole:
        return None, "incomplete", None, ""
    message = choices[0].get("message")
    if isinstance(message, dict) and message.get("refusal"):
        return None, "refused", None, ""
    if assembled.finish_reason() != "stop":
        return None, "cut_short", None, ""
    text = assembled.text()
    found = read(text, labels)
    if found is None:
        return None, "no_label", None, ""
    label, form = found
    return label, "", soft_labels(choices[0], form.before + ('"' if form.quoted else ""), labels), text
