"""Replay pages: plan, run now, progress, history, and what each step brought."""

from __future__ import annotations

from admin.page import Action, Page
from admin.summaries.replay import plan, replay, replay_run, start, stop, take_back

REPLAY = Page(
    "/replay",
    "Replay",
    "replay.html",
    replay,
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
    actions=(Action("/replay/{id}/stop", stop), Action("/replay/{id}/take-back", take_back)),
)
