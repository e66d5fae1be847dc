"""Operations on tasks: proposing them, and whether a student may answer one."""

from __future__ import annotations

from pydantic import Field
from pydantic.dataclasses import dataclass

from admin.operations.operation import By, Outcome, Tenant, operation
from admin.page import NotThere
from admin.sources import Sources
from learning.tasks.proposals import COVERED, LEAST_ANSWERS, MOST_LABELS, proposals
from router.tasks.matching import MOST_TASKS
from store.tasks.tasks import State
from store.validating import CLOSED

_WAIT_S = 30.0
_SAID: dict[State, str] = {
    "on": "Enabled {name!r} of {tenants}: the student answers once it is trained and meets the quality guarantee.",
    "paused": "Paused {name!r} of {tenants}: the teacher answers everything from within a second on.",
}


@dataclass(frozen=True, slots=True, config=CLOSED)
class Proposing:
    """Whose requests are looked through."""

    tenant: Tenant = Field(default="", description="Whose; without it everybody's.")


@dataclass(frozen=True, slots=True, config=CLOSED)
class OneTask:
    """Which task."""

    name: str
    tenant: Tenant = Field(default="", description="Whose; without it the task of that name of every tenant.")
    model: str | None = None


@operation("tasks/propose")
def propose(sources: Sources, by: By, given: Proposing) -> Outcome:
    """Find tasks in what is remembered, and list them as proposed. Nothing is answered by a student until you
    enable one.
    """
    store = sources.store
    found = [
        row for of in ([given.tenant] if given.tenant else store.tenants()) for row in proposals(store, of)
    ]
    for row in found:
        store.tasks.known.add(row, most=MOST_TASKS).result(_WAIT_S)
    said = (
        f"{len(found)} proposed: the teacher goes on answering until you enable one."
        if found
        else f"None found. A task has {LEAST_ANSWERS} answers or more under the same instructions, {COVERED:.0%} of them"
        f" among {MOST_LABELS} labels."
    )
    names = [row.name for row in found]
    return Outcome(said, given.tenant, {"proposed": len(found)}, value={"proposed": names})


def _switched(state: State, sources: Sources, by: By, given: OneTask) -> Outcome:
    """Let students answer a task, or have the teacher answer everything of it."""
    known = sources.store.tasks.known
    rows = [
        row
        for row in known.all(tenant=given.tenant or None, name=given.name)
        if given.model in (None, row.model)
    ]
    if not rows:
        names = ", ".join(sorted({row.name for row in known.all()})) or "none was met or proposed yet"
        raise NotThere(
            f"There is no task {given.name!r} ({names}); one of the configuration is listed from its first request on."
        )
    known.switch(
        given.name, state, at_s=by.now_s, by=by.name, tenant=given.tenant or None, model=given.model
    ).result(_WAIT_S)
    tenants = f"{len(rows)} tenant{'s' if len(rows) != 1 else ''}"
    configured = state == "on" and any(row.source == "configured" for row in rows)
    return Outcome(
        _SAID[state].format(name=given.name, tenants=tenants),
        f"{rows[0].tenant}/{rows[0].slot}" if len(rows) == 1 else given.name,
        {"state": {"old": sorted({row.state for row in rows}), "new": state}},
        advice="It is declared in the configuration: taken away there, it is no task any more."
        if configured
        else "",
    )


@operation("tasks/enable", arguments=("name",), of_pages=("model",))
def enable_task(sources: Sources, by: By, given: OneTask) -> Outcome:
    """Let a student answer the task NAME, once it is proven: a proposal, or a task that was paused."""
    return _switched("on", sources, by, given)


@operation("tasks/pause", arguments=("name",), of_pages=("model",))
def pause_task(sources: Sources, by: By, given: OneTask) -> Outcome:
    """Have the teacher answer everything of the task NAME. What it says is still learnt."""
    return _switched("paused", sources, by, given)
