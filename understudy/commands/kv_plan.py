"""`understudy engines kv-plan`: which examples' prefixes each engine keeps warm, their uses, and what warming has cost."""

from __future__ import annotations

from dataclasses import asdict

from admin.page import Asked, Summary
from admin.sources import Sources
from understudy.commands.made import reading


def planned(sources: Sources, asked: Asked) -> Summary:
    """The plan of every engine, with its examples; no text of any."""
    plans = sources.store.jobs.kv_plans
    rows = []
    for plan in plans.plans():
        examples = plans.examples(plan.engine)
        uses = [example.uses for example in examples]
        rows.append(
            {
                **asdict(plan),
                "of": plan.figures.get("of"),
                "planned": len(examples),
                "tokens": sum(example.tokens for example in examples),
                "most_uses": max(uses, default=None),
                "least_uses": min(uses, default=None),
                "examples": [asdict(example) for example in examples],
            }
        )
    return {"plans": rows}


kv_plan = reading(
    "kv-plan",
    "Show the plan of every engine; no text of any example.",
    planned,
    rows="plans",
    tables={
        "plans": (
            *("engine", "planned", "of", "tokens", "most_uses", "least_uses", "planned_at_s", "warmed"),
            *("warmed_tokens", "warmed_cached_tokens", "warmed_usd"),
        )
    },
    nothing="no plan was made yet: see replay.advanced.kv_plan in the configuration",
)
