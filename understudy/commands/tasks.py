"""`understudy learn tasks list|propose|enable|pause|show`: requests that a student may answer, in a person's hands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import click

from admin.operations.tasks import enable_task, pause_task, propose
from admin.page import Asked, NotThere, Summary
from admin.sources import Sources
from admin.summaries.learning import version
from router.tasks.form import normalised
from store.tasks.answers import TaskCount
from store.tasks.tasks import TaskRow
from understudy.commands.made import command, reading, tenant_option

_WHOSE = tenant_option("Whose; without it everybody's.")
_COLUMNS = ("name", "state", "source", "model", "tenant_name", "requests", "student_share", "labels")
_VERSIONS = 4


@click.group()
def tasks() -> None:
    """List, propose, enable and pause tasks. Running gateways follow within a second."""


def listed(sources: Sources, asked: Asked) -> Summary:
    """Tasks with their figures; `tenant`, an id, and `name` choose among them. Raises NotThere for an unknown name."""
    name, known = asked.text("name"), sources.store.tasks.known
    rows = known.all(tenant=asked.text("tenant") or None, name=name or None)
    if name and not rows:
        names = ", ".join(sorted({row.name for row in known.all()})) or "none was met or proposed yet"
        raise NotThere(f"There is no task {name!r} ({names}).")
    tenants = sources.tenant_names()
    return {"tasks": [figures(sources, row) | {"tenant_name": tenants.get(row.tenant, "")} for row in rows]}


def figures(sources: Sources, row: TaskRow) -> dict[str, Any]:
    """One task: its labels, who answered, and how often the student agreed with the teacher."""
    counts = sources.store.tasks.answers.counts(row.tenant, row.slot)
    answered, unread, met = Counter[str](), Counter[str](), Counter[str]()
    for each in counts:
        answered[each.answered_by] += each.count
        if each.unread:
            unread[each.unread] += each.count
        if each.label is not None:
            met[each.label] += each.count
    requests = answered["teacher"] + answered["student"] + answered["other"]
    compared, agreed = agreement(counts)
    versions = sources.store.artifacts.versions("student", row.tenant, row.slot)
    return {
        "name": row.name,
        "tenant": row.tenant,
        "model": row.model,
        "source": row.source,
        "state": row.state,
        "changed_at_s": row.at_s,
        "by": row.by,
        "grounds": dict(row.grounds),
        "labels": list(row.labels) or [label for label, _ in met.most_common()],
        "requests": requests,
        "answered_by": dict(answered),
        "student_share": answered["student"] / requests if requests else 0.0,
        "compared": compared,
        "agreement": agreed / compared if compared else None,
        "no_label": dict(unread),
        "versions": [version(each) for each in versions[:_VERSIONS]],
    }


def agreement(counts: Iterable[TaskCount]) -> tuple[int, int]:
    """Answers of the teacher that the student predicted, and those of them with the same label."""
    compared = [
        each
        for each in counts
        if each.answered_by == "teacher" and each.label is not None and each.student_label is not None
    ]
    agreed = (
        each for each in compared if normalised(each.label or "") == normalised(each.student_label or "")
    )
    return sum(each.count for each in compared), sum(each.count for each in agreed)


tasks.add_command(
    reading(
        "list",
        "List tasks: where each comes from, whether its student may answer, and how much it does.",
        listed,
        options=[_WHOSE],
        rows="tasks",
        tables={"tasks": _COLUMNS},
        nothing="No tasks.",
    )
)
tasks.add_command(
    reading(
        "show",
        "Show the task NAME: who answered, and how often the student agreed with the teacher.",
        listed,
        options=[click.Argument(["name"]), _WHOSE],
        rows="tasks",
        tables={"tasks": (*_COLUMNS[:5], "answered_by", "compared", "agreement", "no_label")},
    )
)
for operation in (propose, enable_task, pause_task):
    tasks.add_command(command(operation))
