"""Tasks pages: what students took over, one task in full, and the actions on it."""

from __future__ import annotations

from dataclasses import replace

from admin.page import Action, ActionFailed, Asked, BadParameter, Done, Page
from admin.sources import Sources
from admin.summaries.learning import roll_back as roll_back_version
from admin.summaries.learning import use as use_version
from admin.summaries.tasks import find, labels_of, task, task_id, tasks
from learning.tasks.proposals import COVERED, LEAST_ANSWERS, MOST_LABELS, proposals
from router.tasks.matching import MOST_TASKS
from store.records import TaskAnswer
from store.tasks.tasks import State, TaskRow

_WAIT_S = 30.0


def propose(sources: Sources, asked: Asked) -> Done:
    """Looks for tasks in what is remembered, and lists them. Form field: `tenant`, an id; empty for all."""
    tenant = asked.text("tenant", longest=64)
    store = sources.store
    found = [row for of in ([tenant] if tenant else store.tenants()) for row in proposals(store, of)]
    for row in found:
        store.tasks.known.add(row, most=MOST_TASKS).result(_WAIT_S)
    message = (
        f"{len(found)} proposed: the teacher goes on answering until you enable one."
        if found
        else f"None found. A task has {LEAST_ANSWERS} answers or more under the same instructions, {COVERED:.0%} of them"
        f" among {MOST_LABELS} labels."
    )
    return Done(message, "/tasks", target=tenant, detail={"proposed": len(found)})


def enable(sources: Sources, asked: Asked) -> Done:
    """Lets a student answer."""
    return _switched(
        sources,
        asked,
        "on",
        "Enabled: the student answers once it is trained and meets the quality guarantee. Workers follow within a second.",
    )


def pause(sources: Sources, asked: Asked) -> Done:
    """Has the teacher answer everything."""
    return _switched(
        sources, asked, "paused", "Paused: the teacher answers everything from within a second on."
    )


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
        target=_target(row),
        detail={"request_id": request_id, "none": none},
    )


def _refuse_if_labelled(latest: TaskAnswer) -> None:
    if latest.answered_by == "person":
        raise ActionFailed("Somebody has labelled this request meanwhile. Here are the next ones.")


def roll_back(sources: Sources, asked: Asked) -> Done:
    """Takes the student's version into use that was used before."""
    row = find(sources, asked)
    slot = {"kind": "student", "tenant": row.tenant, "model": row.slot, "version": asked.text("version")}
    return _here(row, roll_back_version(sources, replace(asked, query=slot)))


def use(sources: Sources, asked: Asked) -> Done:
    """Takes `version` (form field) of the student into use."""
    row = find(sources, asked)
    record = sources.store.artifacts.get(asked.whole("version", 0))
    if record is None or (record.kind, record.tenant, record.model) != ("student", row.tenant, row.slot):
        raise ActionFailed("This task has no such version; it may have been dropped for its age.")
    return _here(row, use_version(sources, asked))


def _switched(sources: Sources, asked: Asked, state: State, message: str) -> Done:
    row = find(sources, asked)
    switched = sources.store.tasks.known.switch(
        row.name, state, at_s=asked.now_s, by=asked.viewer.name, tenant=row.tenant, model=row.model
    ).result(_WAIT_S)
    if not switched:
        raise ActionFailed("This task is not listed any more.")
    return _here(row, Done(message, detail={"before": row.state}))


def _here(row: TaskRow, done: Done) -> Done:
    return replace(done, to=f"/tasks/{task_id(row)}", target=_target(row))


def _target(row: TaskRow) -> str:
    return f"{row.tenant}/{row.slot}"


TASKS = Page(
    "/tasks", "Tasks", "tasks.html", tasks, csv="tasks", actions=(Action("/tasks/propose", propose),)
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
        Action("/tasks/{id}/enable", enable),
        Action("/tasks/{id}/pause", pause),
        Action("/tasks/{id}/label", label),
        Action("/tasks/{id}/roll-back", roll_back),
        Action("/tasks/{id}/use", use),
    ),
)
