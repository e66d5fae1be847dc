"""What an operator should look at first: what is wrong now or waits for somebody, each with a link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from admin.formats import milliseconds
from admin.page import Summary
from admin.sources import Sources

MUCH_FAILS = 0.05
"""Share of failed requests above which it is reported."""
_STEPS_NAMED = 5
_TENANTS_NAMED = 3


def attention(
    sources: Sources,
    engines: Sequence[Summary],
    floors: Sequence[Summary],
    *,
    quality: Sequence[Summary],
    slow: Sequence[Summary] = (),
    shedding: Sequence[str] = (),
    tenants: Summary | None = None,
    tenant: str = "",
    tenant_name: str = "",
    failed_share: float | None,
    saved_usd: float,
    failed_at: str,
) -> list[dict[str, Any]]:
    """{"state": critical or warning, "says", "href"}, the worst first; empty when all is well.

    `engines`, `slow`, `floors` and `quality` (standings) as admin.summaries.engine_load and admin.summaries.quality
    return them; `tenant` and its name: whose offloaded answers `quality` is of, empty for everybody's. `tenants`: who has
    an alarm of its own, as admin.summaries.tenant_quality says it. `shedding`: what workers leave out now. `failed_at`: the
    page that lists failed requests.
    """
    found = []

    def critical(says: str, href: str) -> None:
        found.append({"state": "critical", "says": says, "href": href})

    def warning(says: str, href: str) -> None:
        found.append({"state": "warning", "says": says, "href": href})

    if engines and all(engine["workers"] == 0 for engine in engines):
        critical("No worker has spoken lately: is the gateway running on this data folder?", "/engines")
    for engine in engines:
        for one in engine["replicas"]:
            if one["state"] in ("down", "refused"):
                name = f"{engine['name']}@{one['replica']}" if len(engine["replicas"]) > 1 else engine["name"]
                says = (
                    f"{name} is down"
                    if one["state"] == "down"
                    else f"{name} refuses the gateway's key or model"
                )
                critical(says, f"/engines#engine-{quote(engine['name'])}")
    of_tenant = f"&tenant={quote(tenant)}" if tenant else ""
    for one in quality:
        if one["level"] in ("critical", "warning"):
            told = critical if one["level"] == "critical" else warning
            told(_says(one, tenant_name), f"/trends?model={quote(one['model'])}{of_tenant}")
    for at, one in enumerate(tenants["worst"][: _TENANTS_NAMED + 1] if tenants else ()):
        told = critical if one["level"] == "critical" else warning
        if at < _TENANTS_NAMED:
            told(_says(one, one["tenant_name"]), f"/overview?tenant={quote(one['tenant'])}#quality")
        elif tenants:
            more = tenants["alarms"] - _TENANTS_NAMED
            told(f"and {more} more tenant{'s' if more > 1 else ''} with bad quality", "/tenants?sort=quality")
    for floor in floors:
        if floor["standing"] == "at_risk":
            where = f"{floor['model']}, {floor['tenant_name'] or floor['tenant']}"
            critical(f"The quality guarantee is at risk ({where})", f"/router?model={quote(floor['model'])}")
    if failed_share is not None and failed_share > MUCH_FAILS:
        critical(f"{failed_share:.0%} of the requests failed", failed_at)
    last = next(iter(sources.store.jobs.replay.runs(limit=1)), None)
    if last is not None and last.state in ("failed", "interrupted"):
        critical(f"Replay's latest run was not finished: {last.state}", f"/replay/{last.id}")
    for run, step in sources.store.runs.undecided(_STEPS_NAMED):
        warning(
            f"{step} of a run may or may not have taken effect: the run waits for a decision", f"/runs/{run}"
        )
    if shedding:
        warning(f"Load shedding: overloaded workers drop {', '.join(shedding)}", "/overview#capacity")
    for one in slow:
        warning(
            f"{one['name']} is slow: an answer takes {milliseconds(one['lately_ms'])} lately; the day before, half took"
            f" at most {milliseconds(one['p50_ms'])} and 95 of 100 at most {milliseconds(one['p95_ms'])}",
            f"/engines#engine-{quote(one['name'])}",
        )
    for engine in engines:
        if engine["state"] == "drained":
            warning(
                f"{engine['name']} is drained until somebody restores it",
                f"/engines#engine-{quote(engine['name'])}",
            )
    if saved_usd < 0:
        warning(
            "Judging, replay, prompts computed early and manual queries cost more than was saved",
            "/settings?q=share",
        )
    if sources.gateway.settings_news():
        warning("The configuration file was changed since the gateway started", "/settings")
    return found


_SAID = {"judge": "judged", "feedback": "rated by feedback", "review": "reviewed"}


def _says(standing: Summary, tenant_name: str) -> str:
    latest, before = standing["latest"], standing["week_before"]
    whose = f" ({tenant_name})" if tenant_name else ""
    known = (
        f"Quality of {standing['engine']} for {standing['model']}{whose}: {latest['mean']:.1%}"
        f" (95% interval {latest['low']:.1%} to {latest['high']:.1%}, {latest['count']} {_SAID[standing['by']]})"
    )
    if latest["mean"] < standing["bar"]:
        return f"{known}, where at least {standing['bar']:.0%} is wanted"
    return f"{known}; {standing['week']['mean']:.1%} this week after {before['mean']:.1%} in the week before"
