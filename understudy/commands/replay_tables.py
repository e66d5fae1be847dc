"""What `understudy learn replay` prints: plans, runs, steps and costs, as tables for people and as data for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from store.jobs.replay_jobs import ReplayJobs
from store.jobs.replay_records import NewStep, ReplayBudget, ReplayRun
from understudy.commands.tables import table

RUN = (
    *("run", "state", "asked_by", "tenant", "started_at_s", "steps", "results", "usd", "unknown_usd"),
    "note",
)
STEP = ("kind", "example", "state", "result", "improvement_potential", "expected_usd", "detail")
SPEND = ("engine", "purpose", "asks", "usd", "unknown_usd", "tokens")
_PLANNED = (
    *("kind", "example", "improvement_potential", "effect", "usd", "tokens"),
    "seconds",
)


def plan_json(steps: Sequence[NewStep], budget: ReplayBudget) -> dict[str, Any]:
    """A plan as data."""
    lines = [
        {
            "kind": step.kind,
            "tenant": step.tenant,
            "example": step.example_id,
            "improvement_potential": step.gain,
            "effect": step.expected_effect,
            "usd": step.expected_usd,
            "tokens": step.expected_tokens,
            "seconds": step.expected_s,
        }
        for step in steps
    ]
    expected = {
        "distil": sum(step.kind == "distil" for step in steps),
        "expand": sum(step.kind == "expand" for step in steps),
        "effect": sum(step.expected_effect for step in steps),
        "usd": sum(step.expected_usd for step in steps),
        "tokens": sum(step.expected_tokens for step in steps),
        "seconds": sum(step.expected_s for step in steps),
    }
    return {"budget": asdict(budget), "expected": expected, "lines": lines}


def plan_table(steps: Sequence[NewStep], budget: ReplayBudget) -> str:
    """A plan for people: best first, with what each step is expected to bring and to cost."""
    if not steps:
        return "nothing to replay: no example has anything to gain, or the budget allows for none"
    plan = plan_json(steps, budget)
    sums = plan["expected"]
    return "\n".join(table(plan["lines"], _PLANNED)) + (
        f"\n\n{sums['distil']} to distil, {sums['expand']} to expand: an effect of {sums['effect']:.4f} for"
        f" {sums['usd']:.4f} dollars, {sums['tokens']} tokens, {sums['seconds'] / 60:.1f} minutes of engines' time"
        f"\nbudget: {_in_words(budget)}"
    )


def as_json(jobs: ReplayJobs, run: ReplayRun, *, steps: bool = False) -> dict[str, Any]:
    """A run as data; with `steps` also each of them and what it cost. Blocks."""
    planned = jobs.steps(run.id)
    fields = asdict(run)
    shown: dict[str, Any] = {
        "run": fields.pop("id"),
        **fields,
        "state": run.shown_state,
        "steps_by_state": Counter(step.state for step in planned),
        "results": Counter(step.result for step in planned if step.result),
        "spent": asdict(jobs.asks.spent(run.id)),
    }
    if steps:
        shown["steps"] = [
            {
                **_planned(step.plan),
                "example": step.plan.example_id,
                "state": step.state,
                "result": step.result,
                "detail": orjson.loads(step.detail),
            }
            for step in planned
        ]
        shown["spend"] = [
            {"engine": line.engine, "purpose": line.purpose, "asks": line.asks, **asdict(line.spent)}
            for line in jobs.asks.spend(run_id=run.id)
        ]
    return shown


def run_rows(runs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Runs as rows of a table with these columns: RUN."""
    return [
        {
            **run,
            "steps": run["steps_by_state"],
            "usd": run["spent"]["usd"],
            "unknown_usd": run["spent"]["unknown_usd"],
        }
        for run in runs
    ]


def spent_in_words(run: Mapping[str, Any]) -> str:
    """What a run did and spent, in a line."""
    results = ", ".join(f"{count} {result}" for result, count in sorted(run["results"].items())) or "nothing"
    spent = run["spent"]
    unknown = f" (and at most {spent['unknown_usd']:.4f} of unknown)" if spent["unknown_usd"] else ""
    return (
        f"{results}; spent {spent['usd']:.4f} dollars{unknown}, {spent['tokens']} tokens,"
        f" {spent['seconds'] / 60:.1f} minutes of engines' time"
    )


def _planned(step: NewStep) -> dict[str, Any]:
    """A planned step as data, its figures by their names."""
    fields = asdict(step)
    fields["improvement_potential"] = fields.pop("gain")
    return fields


def _in_words(budget: ReplayBudget) -> str:
    parts = []
    if budget.usd is not None:
        parts.append(f"{budget.usd:g} dollars")
    if budget.tokens is not None:
        parts.append(f"{budget.tokens} tokens")
    if budget.seconds is not None:
        parts.append(f"{budget.seconds / 60:g} minutes")
    return ", ".join(parts) or "none"
