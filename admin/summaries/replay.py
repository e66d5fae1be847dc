"""Replay: its runs, their progress, results, cost and benefit; planning, starting and reverting."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from admin.actions import NotDone
from admin.choices import offered
from admin.formats import tenant_label
from admin.kept_plans import KeptPlan, kept_plans
from admin.page import ActionFailed, Asked, BadParameter, Done, NotThere, Summary
from admin.replay_benefits import known_benefits
from admin.sources import Sources
from store.jobs.replay_records import CHANGED, ReplayBudget, ReplayRun, ReplayStep

_RUNS = 30
_STEPS = 500
_WEEK_S = 7 * 86_400.0
_WRITE_S = 30.0


def replay(sources: Sources, asked: Asked) -> Summary:
    """The latest runs, newest first; `tenant`, an id, for those of one tenant."""
    tenant = asked.text("tenant", longest=64)
    names = sources.tenant_names()
    runs = sources.store.jobs.replay.runs(limit=_RUNS, tenant=tenant or None)
    facts = sources.gateway.replay
    week = sources.store.jobs.replay.spend(since_s=asked.now_s - _WEEK_S, tenant=tenant or None)
    changed = sources.store.jobs.replay.effects.changed([run.id for run in runs])
    known = known_benefits(sources, tuple(changed)) if changed else {}
    return {
        "tenant": tenant,
        "enabled": facts.enabled,
        "schedule": facts.schedule,
        "next_s": facts.next_s(asked.now_s),
        "lacks": facts.lacks,
        "budget": {"usd": facts.budget.usd, "tokens": facts.budget.tokens, "seconds": facts.budget.seconds},
        "can_plan": sources.gateway.actions.plan_replay is not None,
        "tenants": offered(
            sorted(
                ({"id": of, "name": tenant_label(names, of)} for of in sources.store.examples.tenants()),
                key=lambda one: one["name"],
            ),
            tenant,
        ),
        "computing": known is None,
        "runs": [
            {**_run(sources, run, names), **_in_list(run.id in changed, (known or {}).get(run.id))}
            for run in runs
        ],
        "week": [
            {"engine": line.engine, "purpose": line.purpose, "asks": line.asks, "usd": line.spent.usd}
            for line in week
        ],
        "week_usd": sum(line.spent.most_usd for line in week),
    }


def _in_list(changed: bool, known: Summary | None) -> Summary:
    """What a row of the list tells of a run's benefit."""
    quality, usd = (known or {}).get("quality"), (known or {}).get("usd")
    return {
        "changed": changed,
        "benefit_quality": quality["value"] if quality else None,
        "benefit_quality_low": quality["low"] if quality else None,
        "benefit_quality_high": quality["high"] if quality else None,
        "benefit_usd": usd["value"] if usd else None,
        "benefit_usd_low": usd["low"] if usd else None,
        "benefit_usd_high": usd["high"] if usd else None,
        "benefit_judged": known["fewest_judged"] if known else None,
        "benefit_needed": known["needed"] if known else None,
    }


def replay_run(sources: Sources, asked: Asked) -> Summary:
    """One run with its steps. Raises NotThere."""
    run = _run_named(sources, asked)
    names = sources.tenant_names()
    steps = sources.store.jobs.replay.steps(run.id)
    costs = sources.store.jobs.replay.asks.cost_by_step(run.id)
    changed = any(step.result in CHANGED for step in steps)
    known = known_benefits(sources, (run.id,)) if changed else {}
    return {
        "run": _run(sources, run, names),
        "changed": changed,
        "computing": known is None,
        "benefit": (known or {}).get(run.id),
        "spend": [
            {
                "engine": line.engine,
                "purpose": line.purpose,
                "asks": line.asks,
                "usd": line.spent.usd,
                "unknown_usd": line.spent.unknown_usd,
                "tokens": line.spent.tokens,
                "seconds": line.spent.seconds,
            }
            for line in sources.store.jobs.replay.asks.spend(run_id=run.id)
        ],
        "results": _results(steps, costs),
        "more": max(0, len(steps) - _STEPS),
        "steps": [_step(step, names, costs.get(step.id, 0.0)) for step in steps[:_STEPS]],
    }


def start(sources: Sources, asked: Asked) -> Done:
    """Requests a run with a budget, or of a `plan` that was shown: the replayer takes it up when traffic is low."""
    facts = sources.gateway.replay
    if not facts.enabled:
        raise ActionFailed(
            "Nothing would take it up: set replay.enabled and restart, or use `understudy learn replay`."
        )
    wanted = _kept_plan(sources, asked) or KeptPlan(_tenant(sources, asked), _budget(sources, asked), ())
    run_id = sources.store.jobs.replay.want(
        wanted.tenant, wanted.budget, asked_by="admin", by_user=asked.viewer.name, steps=wanted.steps
    ).result(_WRITE_S)
    return Done(
        f"Run {run_id} is wanted: it is taken up within seconds, and begins when traffic is low.",
        to=f"/replay/{run_id}",
        target=str(run_id),
        detail={"steps": len(wanted.steps)} if wanted.steps else {},
    )


def _kept_plan(sources: Sources, asked: Asked) -> KeptPlan | None:
    """The plan that is to be run as it was shown; None where none is named."""
    id = asked.text("plan", longest=64)
    if not id:
        return None
    found = kept_plans(sources).take(id)
    if found is None:
        raise ActionFailed(
            "This plan was run already, or is older than an hour: plan again, since examples may have changed."
        )
    return found


async def plan(sources: Sources, asked: Asked) -> Done:
    """Plans a run and its expected cost. Asks no engine."""
    make = sources.gateway.actions.plan_replay
    if make is None:
        raise ActionFailed("This installation keeps no examples: there is nothing to plan.")
    budget, tenant = _budget(sources, asked), _tenant(sources, asked)
    try:
        steps = await make(tenant, budget)
    except NotDone as error:
        raise ActionFailed(f"{error}.") from error
    names = sources.tenant_names()
    runs = sources.gateway.replay.enabled and len(steps) > 0
    return Done(
        f"A plan of {len(steps)} steps. Nothing was asked, and nothing was changed.",
        detail={"steps": len(steps)},
        again=True,
        shown={
            "plan": kept_plans(sources).put(KeptPlan(tenant, budget, tuple(steps))) if runs else "",
            "tenant": tenant,
            "tenant_name": tenant_label(names, tenant) if tenant else "",
            "budget": {"usd": budget.usd, "tokens": budget.tokens, "seconds": budget.seconds},
            "expected": {
                "usd": sum(step.expected_usd for step in steps),
                "tokens": sum(step.expected_tokens for step in steps),
                "seconds": sum(step.expected_s for step in steps),
            },
            "steps": [
                {
                    "tenant": step.tenant,
                    "tenant_name": tenant_label(names, step.tenant),
                    "kind": step.kind,
                    "example_id": step.example_id,
                    "improvement_potential": step.gain,
                    "expected_effect": step.expected_effect,
                    "expected_usd": step.expected_usd,
                    "expected_s": step.expected_s,
                }
                for step in steps[:_STEPS]
            ],
        },
    )


async def revert(sources: Sources, asked: Asked) -> Done:
    """Undoes what a run did to the bank; what a person changed since stays."""
    run = _run_named(sources, asked)
    undo = sources.gateway.actions.take_back_replay
    if undo is None:
        raise ActionFailed("This installation keeps no examples: there is nothing to revert.")
    try:
        restored, removed, left = await undo(run.id)
    except NotDone as error:
        raise ActionFailed(f"{error}.") from error
    return Done(
        f"{restored} answers restored, {removed} written examples removed, {left} changed since and left alone.",
        to=f"/replay/{run.id}",
        target=str(run.id),
        detail={"restored": restored, "removed": removed, "left": left},
    )


def _run(sources: Sources, run: ReplayRun, names: dict[str, str]) -> Summary:
    progress = sources.store.jobs.replay.progress(run.id)
    spent = sources.store.jobs.replay.asks.spent(run.id)
    steps = sum(progress.values())
    return {
        "id": run.id,
        "tenant": run.tenant,
        "tenant_name": tenant_label(names, run.tenant) if run.tenant else "",
        "asked_by": run.asked_by,
        "by_user": run.by_user,
        "state": run.shown_state,
        "created_at_s": run.created_at_s,
        "started_at_s": run.started_at_s,
        "ended_at_s": run.ended_at_s,
        "note": run.note,
        "stop_asked": run.stop_asked,
        "budget_usd": run.budget.usd,
        "spent_usd": spent.usd,
        "unknown_usd": spent.unknown_usd,
        "tokens": spent.tokens,
        "seconds": spent.seconds,
        "steps": steps,
        "done": progress.get("done", 0) + progress.get("skipped", 0),
        "share_done": (progress.get("done", 0) + progress.get("skipped", 0)) / steps if steps else None,
        "goes_on": run.state in ("wanted", "running", "paused"),
    }


def _results(steps: list[ReplayStep], costs: dict[int, float]) -> list[Summary]:
    """By kind and result: number of steps, their cost, and the gain that was expected of those that changed anything."""
    counts: Counter[tuple[str, str]] = Counter()
    usd: Counter[tuple[str, str]] = Counter()
    effect: Counter[tuple[str, str]] = Counter()
    for step in steps:
        if step.state in ("done", "skipped"):
            key = (step.plan.kind, step.result or step.state)
            counts[key] += 1
            usd[key] += costs.get(step.id, 0.0)  # type: ignore[assignment]
            effect[key] += step.plan.expected_effect  # type: ignore[assignment]
    return [
        {
            "kind": kind,
            "result": result,
            "changed": result in CHANGED,
            "steps": n,
            "usd": usd[kind, result],
            "expected_effect": effect[kind, result] if result in CHANGED else None,
        }
        for (kind, result), n in sorted(counts.items())
    ]


def _step(step: ReplayStep, names: dict[str, str], usd: float) -> Summary:
    try:
        detail: Any = json.loads(step.detail)
    except ValueError:
        detail = {}
    plain = (
        {k: v for k, v in detail.items() if isinstance(v, bool | int | float | str)}
        if isinstance(detail, dict)
        else {}
    )
    return {
        "position": step.position,
        "tenant": step.plan.tenant,
        "tenant_name": tenant_label(names, step.plan.tenant),
        "kind": step.plan.kind,
        "example_id": step.plan.example_id,
        "state": step.state,
        "result": step.result,
        "expected_effect": step.plan.expected_effect,
        "expected_usd": step.plan.expected_usd,
        "usd": usd,
        "detail": plain,
    }


def _run_named(sources: Sources, asked: Asked) -> ReplayRun:
    text = asked.path.get("id", "")
    run = (
        sources.store.jobs.replay.run(int(text))
        if text.isascii() and text.isdigit() and len(text) < 18
        else None
    )
    if run is None:
        raise NotThere(f"There is no run {text[:40]}.")
    return run


def _tenant(sources: Sources, asked: Asked) -> str:
    tenant = asked.text("tenant", longest=64)
    if tenant and tenant not in sources.store.examples.tenants():
        raise BadParameter(f"tenant is {tenant!r}: it has no examples", "tenant")
    return tenant


def _budget(sources: Sources, asked: Asked) -> ReplayBudget:
    """The requested budget, at most what the configuration lets one run spend."""
    most = sources.gateway.replay.budget
    usd = asked.number("usd", most.usd, least=0.0, most=most.usd if most.usd is not None else 1e6)
    return ReplayBudget(usd, most.tokens, most.seconds)
