"""Runs pages: the list, one run with its graph and waterfall, cancelling it, and deciding about a step of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.operations.runs import cancel, resolve
from admin.page import Asked, Page
from admin.sources import Sources
from admin.summaries.applications import applications
from admin.summaries.run import run
from admin.summaries.runs import runs

_HERE = "/runs/{id}"


def _decision(_: Sources, asked: Asked) -> Mapping[str, Any]:
    how = asked.text("how")
    # As it was written: spaces around a value belong to it. Browsers send other ends of lines.
    value = asked.query.get("value", "").replace("\r\n", "\n") if how == "value" else None
    return {"id": asked.path["id"], "step": asked.text("step"), "how": how, "value": value}


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
    actions=(
        cancel.form("/runs/{id}/cancel", to=_HERE),
        resolve.form("/runs/{id}/resolve", to=_HERE, fields=_decision),
    ),
)
