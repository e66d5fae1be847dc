"""What `understudy replay` prints: plans, runs, steps and costs, as tables for people and as data for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from learning.replay.plan import Line
from store.jobs.replay_jobs import ReplayJobs
from store.jobs.replay_records import ReplayBudget, ReplayRun, ReplayStep


def plan_json(lines: Sequence[Line], budget: ReplayBudget) -> dict[str, Any]:
    """A plan as data."""
    return {
        "budget": _budget(budget),
        "expected": _expected(lines),
        "lines": [
            {
                "kind": line.kind,
                "tenant": line.candidate.tenant,
                "example": line.candidate.example_id,
                "gain": line.candidate.gain,
                "companion_gain": line.candidate.companion_gain,
                "nearest": line.candidate.nearest,
                "effect": line.effect,
                "usd": line.cost.usd,
                "tokens": line.cost.tokens,
                "seconds": line.cost.seconds,
                "effect_per_budget": line.per_cost,
            }
            for line in lines
        ],
    }


def plan_table(lines: Sequence[Line], budget: ReplayBudget) -> str:
    """A plan for people: best first, with what each line is expected to bring and to cost."""
    if not lines:
        return "nothing to replay: no example has anything to gain, or the budget allows for none"
    rows = [("KIND", "EXAMPLE", "GAIN", "COMPANION", "NEAREST", "EFFECT", "DOLLARS", "TOKENS", "SECONDS")]
    for line in lines:
        it, cost = line.candidate, line.cost
        rows.append(
            (
                *(line.kind, str(it.example_id), f"{it.gain:.4f}", f"{it.companion_gain:.4f}"),
                *(f"{it.nearest:.2f}", f"{line.effect:.4f}", f"{cost.usd:.5f}", str(cost.tokens)),
                f"{cost.seconds:.1f}",
            )
        )
    sums = _expected(lines)
    return _table(rows) + (
        f"\n\n{sums['distil']} to distil, {sums['expand']} to expand: an effect of {sums['effect']:.4f} for"
        f" {sums['usd']:.4f} dollars, {sums['tokens']} tokens, {sums['seconds'] / 60:.1f} minutes of engines' time"
        f"\nbudget: {_in_words(budget)}"
    )


def as_json(jobs: ReplayJobs, run: ReplayRun, *, steps: bool = False) -> dict[str, Any]:
    """A run as data; with `steps` also each of them and what it cost. Blocks."""
    planned = jobs.steps(run.id)
    spent = jobs.asks.spent(run.id)
    shown: dict[str, Any] = {
        "run": run.id,
        "tenant": run.tenant,
        "asked_by": run.asked_by,
        "state": run.state,
        "note": run.note,
        "created_at_s": run.created_at_s,
        "started_at_s": run.started_at_s,
        "ended_at_s": run.ended_at_s,
        "budget": _budget(run.budget),
        "steps_by_state": Counter(step.state for step in planned),
        "results": Counter(step.result for step in planned if step.result),
        "spent": {
            "usd": spent.usd,
            "unknown_usd": spent.unknown_usd,
            "tokens": spent.tokens,
            "unknown_tokens": spent.unknown_tokens,
            "seconds": spent.seconds,
        },
    }
    if steps:
        shown["steps"] = [_step(step) for step in planned]
        shown["spend"] = [
            {
                "engine": line.engine,
                "purpose": line.purpose,
                "asks": line.asks,
                "usd": line.spent.usd,
                "unknown_usd": line.spent.unknown_usd,
                "tokens": line.spent.tokens,
            }
            for line in jobs.asks.spend(run_id=run.id)
        ]
    return shown


def run_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Runs for people."""
    rows = [("RUN", "STATE", "BY", "TENANT", "BEGAN", "STEPS", "RESULTS", "DOLLARS", "UNKNOWN", "NOTE")]
    for run in runs:
        states = run["steps_by_state"]
        rows.append(
            (
                *(str(run["run"]), run["state"], run["asked_by"], run["tenant"][:12] or "all"),
                *(_time(run["started_at_s"]), f"{states.get('done', 0)}/{sum(states.values())}"),
                " ".join(f"{name}:{count}" for name, count in sorted(run["results"].items())) or "-",
                f"{run['spent']['usd']:.4f}",
                f"{run['spent']['unknown_usd']:.4f}",
                run["note"],
            )
        )
    return _table(rows)


def step_table(steps: Sequence[Mapping[str, Any]]) -> str:
    """A run's steps for people."""
    rows = [("KIND", "EXAMPLE", "STATE", "RESULT", "GAIN", "EXPECTED DOLLARS", "DETAIL")]
    for step in steps:
        detail = " ".join(f"{name}={value}" for name, value in step["detail"].items())
        rows.append(
            (
                *(step["kind"], str(step["example"]), step["state"], step["result"] or "-"),
                *(f"{step['gain']:.4f}", f"{step['expected_usd']:.5f}", detail),
            )
        )
    return _table(rows)


def spend_table(lines: Sequence[Mapping[str, Any]]) -> str:
    """What a run cost, by engine and purpose, for people."""
    rows = [("ENGINE", "PURPOSE", "REQUESTS", "DOLLARS", "UNKNOWN", "TOKENS")]
    rows.extend(
        (
            *(line["engine"], line["purpose"], str(line["asks"]), f"{line['usd']:.6f}"),
            *(f"{line['unknown_usd']:.6f}", str(line["tokens"])),
        )
        for line in lines
    )
    return _table(rows)


def _step(step: ReplayStep) -> dict[str, Any]:
    return {
        "kind": step.plan.kind,
        "tenant": step.plan.tenant,
        "example": step.plan.example_id,
        "state": step.state,
        "result": step.result,
        "detail": orjson.loads(step.detail),
        "gain": step.plan.gain,
        "companion_gain": step.plan.companion_gain,
        "expected_effect": step.plan.expected_effect,
        "expected_usd": step.plan.expected_usd,
    }


def _expected(lines: Sequence[Line]) -> dict[str, Any]:
    return {
        "distil": sum(line.kind == "distil" for line in lines),
        "expand": sum(line.kind == "expand" for line in lines),
        "effect": sum(line.effect for line in lines),
        "usd": sum(line.cost.usd for line in lines),
        "tokens": sum(line.cost.tokens for line in lines),
        "seconds": sum(line.cost.seconds for line in lines),
    }


def _budget(budget: ReplayBudget) -> dict[str, Any]:
    return {"usd": budget.usd, "tokens": budget.tokens, "seconds": budget.seconds}


def _in_words(budget: ReplayBudget) -> str:
    parts = []
    if budget.usd is not None:
        parts.append(f"{budget.usd:g} dollars")
    if budget.tokens is not None:
        parts.append(f"{budget.tokens} tokens")
    if budget.seconds is not None:
        parts.append(f"{budget.seconds / 60:g} minutes")
    return ", ".join(parts) or "none"


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _time(at_s: float | None) -> str:
    return "-" if at_s is None else datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
