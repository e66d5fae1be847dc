"""What an operator should look at first: what is wrong now or waits for somebody, each with a link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from admin.page import Summary
from admin.sources import Sources

MUCH_FAILS = 0.05
"""Share of failed requests above which it is reported."""
_STEPS_NAMED = 5


def attention(
    sources: Sources,
    engines: Sequence[Summary],
    floors: Sequence[Summary],
    *,
    failed_share: float | None,
    saved_usd: float,
    failed_at: str,
) -> list[dict[str, Any]]:
    """{"state": wrong or waits, "says", "href"}, the worst first; empty when all is well.

    `engines` and `floors` as admin.summaries.engine_load and admin.summaries.quality return them; `failed_at`: the page
    that lists failed requests.
    """
    found = []

    def wrong(says: str, href: str) -> None:
        found.append({"state": "wrong", "says": says, "href": href})

    def waits(says: str, href: str) -> None:
        found.append({"state": "waits", "says": says, "href": href})

    if engines and all(engine["workers"] == 0 for engine in engines):
        wrong("No worker has spoken lately: is the gateway running on this data folder?", "/engines")
    for engine in engines:
        for one in engine["replicas"]:
            if one["state"] in ("down", "refused"):
                name = f"{engine['name']}@{one['replica']}" if len(engine["replicas"]) > 1 else engine["name"]
                says = (
                    f"{name} is down"
                    if one["state"] == "down"
                    else f"{name} refuses the gateway's key or model"
                )
                wrong(says, f"/engines#engine-{quote(engine['name'])}")
    for floor in floors:
        if floor["standing"] == "threatened":
            where = f"{floor['model']}, {floor['tenant_name'] or floor['tenant']}"
            wrong(f"The promise on quality is threatened ({where})", f"/router?model={quote(floor['model'])}")
    if failed_share is not None and failed_share > MUCH_FAILS:
        wrong(f"{failed_share:.0%} of the requests failed", failed_at)
    last = next(iter(sources.store.jobs.replay.runs(limit=1)), None)
    if last is not None and last.state in ("failed", "interrupted"):
        wrong(f"Replay's latest run was not finished: {last.state}", f"/replay/{last.id}")
    for run, step in sources.store.runs.undecided(_STEPS_NAMED):
        waits(
            f"{step} of a run may or may not have taken effect: the run waits for a decision", f"/runs/{run}"
        )
    for engine in engines:
        if engine["state"] == "drained":
            waits(
                f"{engine['name']} is drained until somebody restores it",
                f"/engines#engine-{quote(engine['name'])}",
            )
    if saved_usd < 0:
        waits(
            "Judging, replay, prompts computed early and asking by hand cost more than was saved",
            "/settings?q=share",
        )
    if sources.gateway.settings_news():
        waits("The configuration file was changed since the gateway started", "/settings")
    return found
