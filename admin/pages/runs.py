"""Runs pages: the list, one run with its graph and waterfall, and cancelling it."""

from __future__ import annotations

from admin.page import Action, ActionFailed, Asked, Done, NotThere, Page
from admin.sources import Sources
from admin.summaries.run import run
from admin.summaries.runs import runs

_WAIT_S = 30.0


def cancel(sources: Sources, asked: Asked) -> Done:
    """Has the run's worker stop it."""
    id = asked.path["id"]
    whole = sources.store.runs.run(id)
    if whole is None:
        raise NotThere("This run is not kept, or not any more.")
    if not sources.store.runs.request_cancel(whole.run.tenant, id, now_s=asked.now_s).result(_WAIT_S):
        raise ActionFailed("This run has ended already.")
    return Done("Asked to cancel: its worker stops it within a second.", f"/runs/{id}", target=id)


RUNS = Page("/runs", "Runs", "runs.html", runs)
RUN = Page(
    "/runs/{id}",
    "Run",
    "run.html",
    run,
    section="/runs",
    in_menu=False,
    actions=(Action("/runs/{id}/cancel", cancel),),
)
