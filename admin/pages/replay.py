"""Replay pages: plan, run now, progress, history, and what each brought."""

from __future__ import annotations

from admin.operations.replay import stop
from admin.page import Action, Page
from admin.summaries.replay import plan, replay, replay_run, revert, start

REPLAY = Page(
    "/replay",
    "Replay",
    "replay.html",
    replay,
    csv="runs",
    actions=(
        Action("/replay/run", start),
        Action("/replay/plan", plan, template="replay_plan.html"),
    ),
)
REPLAY_RUN = Page(
    "/replay/{id}",
    "Replay run",
    "replay_run.html",
    replay_run,
    section="/replay",
    in_menu=False,
    csv="steps",
    actions=(stop.form("/replay/{id}/stop", to="/replay/{id}"), Action("/replay/{id}/revert", revert)),
)
