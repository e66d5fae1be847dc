"""What `understudy replay` prints: plans, runs, steps and costs, as tables for people and as data for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import orjson

from store.jobs.replay_jobs import ReplayJobs
from store.jobs.replay_records import NewStep, ReplayBudget, ReplayRun


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
    rows = [
        ("KIND", "EXAMPLE", "POTENTIAL", "EXPECTED GAIN", "DOLLARS", "TOKENS", "SECONDS"),
        *(
            (
                step.kind,
                str(step.example_id),
                f"{step.gain:.4f}",
                f"{step.expected_effect:.4f}",
                f"{step.expected_usd:.5f}",
                str(step.expected_tokens),
                f"{step.expected_s:.1f}",
            )
            for step in steps
        ),
    ]
    sums = plan_json(steps, budget)["expected"]
    return _table(rows) + (
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


def run_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Runs for people."""
    rows = [("RUN", "STATE", "BY", "TENANT", "BEGAN", "STEPS", "RESULTS", "DOLLARS", "UNKNOWN", "NOTE")]
    for run in runs:
        states = run["steps_by_state"]
        rows.append(
            (
                str(run["run"]),
                run["state"],
                run["asked_by"],
                run["tenant"][:12] or "all",
                _time(run["started_at_s"]),
                f"{states.get('done', 0)}/{sum(states.values())}",
                " ".join(f"{name}:{count}" for name, count in sorted(run["results"].items())) or "-",
                f"{run['spent']['usd']:.4f}",
                f"{run['spent']['unknown_usd']:.4f}",
                run["note"],
            )
        )
    return _table(rows)


def step_table(steps: Sequence[Mapping[str, Any]]) -> str:
    """A run's steps for people."""
    rows = [
        ("KIND", "EXAMPLE", "STATE", "RESULT", "POTENTIAL", "EXPECTED DOLLARS", "DETAIL"),
        *(
            (
                step["kind"],
                str(step["example"]),
                step["state"],
                step["result"] or "-",
                f"{step['improvement_potential']:.4f}",
                f"{step['expected_usd']:.5f}",
                " ".join(f"{name}={value}" for name, value in step["detail"].items()),
            )
            for step in steps
        ),
    ]
    return _table(rows)


def spend_table(lines: Sequence[Mapping[str, Any]]) -> str:
    """What a run cost, by engine and purpose, for people."""
    rows = [
        ("ENGINE", "PURPOSE", "REQUESTS", "DOLLARS", "UNKNOWN", "TOKENS"),
        *(
            (
                line["engine"],
                line["purpose"],
                str(line["asks"]),
                f"{line['usd']:.6f}",
                f"{line['unknown_usd']:.6f}",
                str(line["tokens"]),
            )
            for line in lines
        ),
    ]
    return _table(rows)


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


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _time(at_s: float | None) -> str:
    return "-" if at_s is None else datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
