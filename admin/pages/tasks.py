"""Tasks pages: what students took over, one task in full, and the actions on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.operations.tasks import enable_task, pause_task, propose
from admin.operations.versions import rollback, use
from admin.page import Action, ActionFailed, Asked, BadParameter, Done, Page
from admin.sources import Sources
from admin.summaries.tasks import find, labels_of, task, task_id, tasks
from store.records import TaskAnswer

_WAIT_S = 30.0


def label(sources: Sources, asked: Asked) -> Done:
    """Labels one request. Form fields: `request_id`, and `label` (one of the task's) or `none`, yes for no label."""
    row = find(sources, asked)
    request_id, none = asked.text("request_id", longest=64), asked.choice("none", ("", "yes"), "") == "yes"
    given = None if none else asked.text("label")
    answers = sources.store.tasks.answers
    kept = answers.of_request(row.tenant, request_id)
    if kept is None or kept.slot != row.slot:
        raise ActionFailed("This request is not kept any more, or belongs to another task.")
    if given is not None and given not in {*labels_of(sources, row), kept.student_label, kept.label}:
        raise BadParameter("label is none of the task's; choose one that is listed")
    done = answers.label(row.tenant, request_id, given, at_s=asked.now_s, check=_refuse_if_labelled)
    if not done.result(_WAIT_S):
        raise ActionFailed("This request is not kept any more.")
    return Done(
        "Labelled: no label fits, so nothing is learnt of it."
        if given is None
        else "Labelled: it outweighs the teacher's.",
        f"/tasks/{task_id(row)}#review",
        target=f"{row.tenant}/{row.slot}",
        detail={"request_id": request_id, "none": none},
    )


def _refuse_if_labelled(latest: TaskAnswer) -> None:
    if latest.answered_by == "person":
        raise ActionFailed("Somebody has labelled this request meanwhile. Here are the next ones.")


def _slot(sources: Sources, asked: Asked) -> Mapping[str, Any]:
    """The slot of the task's student, and the version that was in use when the page was read."""
    row = find(sources, asked)
    return {"kind": "student", "tenant": row.tenant, "model": row.slot, "in_use": asked.text("version")}


def _version(sources: Sources, asked: Asked) -> Mapping[str, Any]:
    """The version of the form, if it is one of the task's student."""
    row, id = find(sources, asked), asked.whole("version", 0)
    record = sources.store.artifacts.get(id)
    if record is None or (record.kind, record.tenant, record.model) != ("student", row.tenant, row.slot):
        raise ActionFailed("This task has no such version; it may have been dropped for its age.")
    return {"version": id, "in_use": asked.text("in_use")}


def _task(sources: Sources, asked: Asked) -> Mapping[str, Any]:
    row = find(sources, asked)
    return {"name": row.name, "tenant": row.tenant, "model": row.model}


_HERE = "/tasks/{id}"
TASKS = Page(
    "/tasks",
    "Tasks",
    "tasks.html",
    tasks,
    csv="tasks",
    actions=(propose.form("/tasks/propose", to="/tasks"),),
)
TASK = Page(
    "/tasks/{id}",
    "Task",
    "task.html",
    task,
    section="/tasks",
    in_menu=False,
    charts=True,
    script="review.js",
    actions=(
        enable_task.form("/tasks/{id}/enable", to=_HERE, fields=_task),
        pause_task.form("/tasks/{id}/pause", to=_HERE, fields=_task),
        Action("/tasks/{id}/label", label),
        rollback.form("/tasks/{id}/roll-back", to=_HERE, fields=_slot),
        use.form("/tasks/{id}/use", to=_HERE, fields=_version),
    ),
)
