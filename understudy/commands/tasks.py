"""`understudy tasks list|propose|enable|pause|show`: requests that a student may answer, in a person's hands."""

from __future__ import annotations

import getpass
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from learning.tasks.proposals import COVERED, LEAST_ANSWERS, MOST_LABELS, proposals
from router.tasks.form import normalised
from router.tasks.matching import MOST_TASKS
from store import Store
from store.tasks.answers import TaskCount
from store.tasks.tasks import State, TaskRow
from understudy.commands.as_json import JSON, print_json
from understudy.commands.auditing import note
from understudy.commands.data_folder import data_option, store_in
from understudy.commands.giving_up import give_up
from understudy.commands.tenant_option import tenant_named, tenant_option

_WAIT_S = 30.0
_LABELS_SHOWN = 20


@click.group()
def tasks() -> None:
    """List, propose, enable and pause tasks. Running gateways follow within a second."""


@tasks.command("list")
@data_option()
@tenant_option("Whose; without it everybody's.")
@JSON
def list_(data: Path, tenant: str | None, as_json: bool) -> None:
    """List tasks: where each comes from, whether its student may answer, and how much it does."""
    with store_in(data) as store:
        rows = store.tasks.known.all(tenant=_id(store, tenant))
        _show_all(store, rows, as_json=as_json)


@tasks.command()
@data_option()
@tenant_option("Whose; without it everybody's.")
@JSON
def propose(data: Path, tenant: str | None, as_json: bool) -> None:
    """Find tasks in what is remembered, and list them as proposed. Nothing is answered by a student until you enable one."""
    with store_in(data) as store:
        tenants = [_id(store, tenant) or ""] if tenant else store.tenants()
        found = [row for one in tenants for row in proposals(store, one)]
        for row in found:
            store.tasks.known.add(row, most=MOST_TASKS).result(_WAIT_S)
        note(store, "tasks/propose", "", {"proposed": len(found)})
        _show_all(store, found, as_json=as_json)
        if not found and not as_json:
            click.echo(
                f"A task has {LEAST_ANSWERS} answers or more under the same instructions, of which {COVERED:.0%} are among "
                f"{MOST_LABELS} labels."
            )


@tasks.command()
@click.argument("name")
@data_option()
@tenant_option("Whose; without it the task of that name of every tenant.")
def enable(name: str, data: Path, tenant: str | None) -> None:
    """Let a student answer the task NAME, once it is proven: a proposal, or a task that was paused."""
    _switch(data, name, tenant, "on", "enabled")


@tasks.command()
@click.argument("name")
@data_option()
@tenant_option("Whose; without it the task of that name of every tenant.")
def pause(name: str, data: Path, tenant: str | None) -> None:
    """Have the teacher answer everything of the task NAME. What it says is still learnt."""
    _switch(data, name, tenant, "paused", "paused")


@tasks.command()
@click.argument("name")
@data_option()
@tenant_option("Whose; without it the task of that name of every tenant.")
@JSON
def show(name: str, data: Path, tenant: str | None, as_json: bool) -> None:
    """Show the task NAME: labels, who answered, agreement, answers that were no label, and versions of the student."""
    with store_in(data) as store:
        found = [_figures(store, row) for row in _named(store, name, tenant)]
    if as_json:
        print_json(found)
        return
    for told in found:
        click.echo("\n".join(_lines(told)))


def _switch(data: Path, name: str, tenant: str | None, state: State, done: str) -> None:
    with store_in(data) as store:
        rows = _named(store, name, tenant)
        changed = store.tasks.known.switch(
            name, state, at_s=time.time(), by=f"{getpass.getuser()} (command line)", tenant=_id(store, tenant)
        ).result(_WAIT_S)
        note(
            store, "tasks/switch", name, {"state": {"old": sorted({row.state for row in rows}), "new": state}}
        )
    click.echo(f"{done} {name!r} of {changed} tenant{'s' if changed != 1 else ''}")
    if state == "on" and any(row.source == "configured" for row in rows):
        click.echo("It is declared in the configuration: taken away there, it is no task any more.", err=True)


def _named(store: Store, name: str, tenant: str | None) -> list[TaskRow]:
    found = store.tasks.known.all(tenant=_id(store, tenant), name=name)
    if not found:
        known = (
            ", ".join(sorted({row.name for row in store.tasks.known.all()})) or "none was met or proposed yet"
        )
        give_up(
            f"there is no task {name!r} ({known}); one of the configuration is listed from its first request on"
        )
    return found


def _id(store: Store, tenant: str | None) -> str | None:
    return None if tenant is None else tenant_named(store.keys, tenant)


def _show_all(store: Store, rows: Iterable[TaskRow], *, as_json: bool) -> None:
    names = {key.tenant: key.tenant_name for key in store.keys.list()}
    told = [_figures(store, row) for row in rows]
    if as_json:
        print_json(told)
        return
    for each in told:
        tenant = names.get(each["tenant"], each["tenant"])
        figures = each["grounds"] if each["state"] == "proposed" else {}
        answers = figures.get("answers", each["requests"])
        share = "" if each["state"] == "proposed" else f"  student {each['student_share']:.0%}"
        click.echo(
            f"{each['name']}  {each['state']:8} {each['source']:10} model {each['model']}  tenant {tenant}"
            f"  {answers} answers  {len(each['labels'])} labels{share}"
        )
    if not told:
        click.echo("No tasks.")


def _figures(store: Store, row: TaskRow) -> dict[str, Any]:
    counts = store.tasks.answers.counts(row.tenant, row.slot)
    versions = store.artifacts.versions("student", row.tenant, row.slot)
    answered = Counter[str]()
    unread = Counter[str]()
    for each in counts:
        answered[each.answered_by] += each.count
        if each.unread:
            unread[each.unread] += each.count
    requests = answered["teacher"] + answered["student"] + answered["other"]
    met = Counter({each.label: 0 for each in counts if each.label is not None})
    for each in counts:
        if each.label is not None:
            met[each.label] += each.count
    compared, agreed = agreement(counts)
    return {
        "name": row.name,
        "tenant": row.tenant,
        "model": row.model,
        "source": row.source,
        "state": row.state,
        "since": datetime.fromtimestamp(row.at_s, UTC).isoformat(timespec="seconds"),
        "by": row.by,
        "grounds": dict(row.grounds),
        "labels": list(row.labels) or [label for label, _ in met.most_common()],
        "requests": requests,
        "answered_by": dict(answered),
        "student_share": answered["student"] / requests if requests else 0.0,
        "compared": compared,
        "agreement": agreed / compared if compared else None,
        "no_label": dict(unread),
        "versions": [
            {"id": v.id, "state": v.state, "metrics": dict(v.metrics), "note": v.note} for v in versions[:4]
        ],
    }


def agreement(counts: Iterable[TaskCount]) -> tuple[int, int]:
    """Answers of the teacher that the student predicted, and those of them with the same label."""
    compared = [
        c
        for c in counts
        if c.answered_by == "teacher" and c.label is not None and c.student_label is not None
    ]
    agreed = (c for c in compared if normalised(c.label or "") == normalised(c.student_label or ""))
    return sum(c.count for c in compared), sum(c.count for c in agreed)


def _lines(told: Mapping[str, Any]) -> list[str]:
    labels = told["labels"]
    more = f" and {len(labels) - _LABELS_SHOWN} more" if len(labels) > _LABELS_SHOWN else ""
    agreed = (
        "nothing compared yet"
        if told["agreement"] is None
        else f"{told['agreement']:.1%} of {told['compared']}"
    )
    lines = [
        f"{told['name']}  ({told['state']}, {told['source']}; model {told['model']}, tenant id:{told['tenant']})",
        f"  labels      {', '.join(labels[:_LABELS_SHOWN]) or 'none met yet'}{more}",
        f"  requests    {told['requests']}, {told['student_share']:.1%} answered by the student",
        f"  agreement   {agreed} (everything the student predicted, answered or not)",
    ]
    if told["no_label"]:
        lines.append(
            f"  no label    {', '.join(f'{why} {count}' for why, count in told['no_label'].items())}"
        )
    lines += [
        f"  version     {v['id']} {v['state']} {v['metrics'].get('kind', '')} {v['note']}".rstrip()
        for v in told["versions"]
    ]
    return lines
