"""Runs of applications, newest first: how far each is, its tokens, what it cost, how long it took."""

from __future__ import annotations

from typing import Any, get_args
from urllib.parse import urlencode

from admin.page import Asked, BadParameter, Summary
from admin.sources import Sources
from admin.summaries.requests import tenants_to_choose
from store.workflows.records import RunState, RunSummary

ROWS = 50
STATES: tuple[RunState, ...] = get_args(RunState)
_FILTERS = ("state", "tenant", "app", "workflow")
_DAY_S = 86_400.0
_LONGEST = 128
"""An end user's app is stored with the digest of the user before its name."""


def runs(sources: Sources, asked: Asked) -> Summary:
    """Filters: `state`, `tenant` (an id), `app`, `workflow`. `before` continues after a page of `limit` rows."""
    tenant, app = asked.text("tenant", longest=64), asked.text("app", longest=_LONGEST)
    workflow = asked.text("workflow", longest=_LONGEST)
    state = _state(asked)
    before = _before(asked.text("before", longest=100))
    limit = asked.whole("limit", ROWS, least=1, most=1000)
    store = sources.store.runs
    found = store.runs(
        tenant=tenant or None,
        app=app or None,
        workflow=workflow or None,
        states=(state,) if state else (),
        before=before,
        limit=limit + 1,
    )
    names = sources.tenant_names()
    return {
        "filters": {"state": state or "", "tenant": tenant, "app": app, "workflow": workflow},
        "filtered": bool(state or tenant or app or workflow),
        "first_page": before is None,
        "day": {state: store.counts(since_s=asked.now_s - _DAY_S).get(state, 0) for state in STATES},
        "rows": [listed(each, names, asked.now_s) for each in found[:limit]],
        "next": _next(found, limit, asked),
        "tenants": tenants_to_choose(sources, tenant),
        "states": list(STATES),
    }


def listed(each: RunSummary, names: dict[str, str], now_s: float) -> dict[str, Any]:
    """A run in a list."""
    run, steps = each.run, sum(each.steps.values())
    return {
        "id": run.id,
        "state": run.state,
        "cancel_asked": run.cancel_asked,
        "app": run.app,
        "workflow": run.workflow,
        "version": run.version,
        "tenant": run.tenant,
        "tenant_name": names.get(run.tenant, ""),
        "steps": steps,
        "done": each.steps.get("done", 0),
        "failed": each.steps.get("failed", 0),
        "waits": each.steps.get("unknown", 0),
        "share_done": each.steps.get("done", 0) / steps if steps else None,
        "prompt_tokens": each.prompt_tokens,
        "cached_tokens": each.cached_tokens,
        "completion_tokens": each.completion_tokens,
        "cost_usd": each.cost_usd,
        "created_at_s": run.created_at_s,
        "took_ms": 1000 * max(0.0, (run.ended_at_s or now_s) - run.created_at_s),
        "round_trips_saved": run.round_trips_saved if run.ended_at_s is not None else None,
        "failure": run.failure.code if run.failure is not None else "",
    }


def _state(asked: Asked) -> RunState | None:
    text = asked.choice("state", ("", *STATES), "")
    return next((state for state in STATES if state == text), None)


def _before(text: str) -> tuple[float, str] | None:
    """Reads a position written by `_next`."""
    if not text:
        return None
    at_s, _, run_id = text.partition("-")
    try:
        return float(at_s), run_id
    except ValueError:
        raise BadParameter(f"before is {text!r}; it comes from the page before") from None


def _next(found: list[RunSummary], limit: int, asked: Asked) -> str | None:
    if len(found) <= limit:
        return None
    last = found[limit - 1].run
    kept = {name: value for name in _FILTERS if (value := asked.text(name, longest=_LONGEST))}
    return urlencode(kept | {"before": f"{last.created_at_s!r}-{last.id}"})
