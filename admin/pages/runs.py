"""Runs pages: the list, one run with its graph and waterfall, cancelling it, and deciding about a step of it."""

from __future__ import annotations

from admin.page import LONGEST_PARAMETER, Action, ActionFailed, Asked, BadParameter, Done, NotThere, Page
from admin.sources import Sources
from admin.summaries.applications import applications
from admin.summaries.run import run
from admin.summaries.runs import runs
from store.workflows.records import Resolution

_WAIT_S = 30.0
_LONGEST_STEP = 256


def cancel(sources: Sources, asked: Asked) -> Done:
    """Has the run's worker stop it."""
    id = asked.path["id"]
    whole = sources.store.runs.run(id)
    if whole is None:
        raise NotThere("This run is not kept, or not any more.")
    if not sources.store.runs.request_cancel(whole.run.tenant, id).result(_WAIT_S):
        raise ActionFailed("This run has ended already.")
    return Done("Asked to cancel: its worker stops it within a second.", f"/runs/{id}", target=id)


def resolve(sources: Sources, asked: Asked) -> Done:
    """Has the run's worker go on with a step whose outcome nobody knows."""
    id, step = asked.path["id"], asked.text("step", longest=_LONGEST_STEP)
    how = asked.choice("how", ("retry", "skip", "value"), "")
    # As it was written: spaces around a value belong to it. Browsers send other ends of lines.
    value = asked.query.get("value", "").replace("\r\n", "\n") if how == "value" else None
    if value is not None and len(value) > LONGEST_PARAMETER:
        raise BadParameter(f"value has {len(value)} characters; {LONGEST_PARAMETER} are the most")
    whole = sources.store.runs.run(id)
    if whole is None:
        raise NotThere("This run is not kept, or not any more.")
    decided = Resolution(how, value)  # type: ignore[arg-type]
    if not sources.store.runs.resolve(whole.run.tenant, id, step, decided).result(_WAIT_S):
        raise ActionFailed("This step does not wait for a decision (any more).")
    said = {"retry": "It is asked once more", "skip": "The run goes on without it"}
    told = said.get(how, "The value is taken for its answer")
    return Done(f"{told}: its worker goes on within a second.", f"/runs/{id}", id, {"step": step, "how": how})


RUNS = Page("/runs", "Runs", "runs.html", runs, csv="rows")
APPLICATIONS = Page(
    "/applications",
    "Applications",
    "applications.html",
    applications,
    section="/runs",
    in_menu=False,
    csv="rows",
)
RUN = Page(
    "/runs/{id}",
    "Run",
    "run.html",
    run,
    section="/runs",
    in_menu=False,
    csv="rows",
    actions=(Action("/runs/{id}/cancel", cancel), Action("/runs/{id}/resolve", resolve)),
)
