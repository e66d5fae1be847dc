"""`understudy kv-plan`: which examples' prefixes each engine keeps warm, their uses, and what warming has cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
import orjson

from store.jobs.kv_plans import KvPlanExample, KvPlanRow
from understudy.commands.data_folder import data_option, store_in


@click.command("kv-plan")
@data_option()
@click.option("--json", "as_json", is_flag=True, help="For machines, with every planned example.")
def kv_plan(data: Path, as_json: bool) -> None:
    """Show the plan of every engine; no text of any example."""
    with store_in(data) as store:
        plans = store.jobs.kv_plans
        rows = [(plan, plans.examples(plan.engine)) for plan in plans.plans()]
    if as_json:
        told = [asdict(plan) | {"examples": [asdict(e) for e in examples]} for plan, examples in rows]
        click.echo(orjson.dumps(told, option=orjson.OPT_INDENT_2).decode())
        return
    for plan, examples in rows:
        click.echo(_in_words(plan, examples))
    if not rows:
        click.echo("no plan was made yet: see replay.advanced.kv_plan in the configuration")


def _in_words(plan: KvPlanRow, examples: Sequence[KvPlanExample]) -> str:
    uses = [e.uses for e in examples]
    why = f", used {max(uses):.1f} to {min(uses):.1f} times (decayed by 0.9 per hour)" if uses else ""
    return (
        f"{plan.engine}: the {len(examples)} most used of {plan.figures.get('of', 'the')} examples sent to it, "
        f"{sum(e.tokens for e in examples)} tokens{why}; planned {time.time() - plan.planned_at_s:.0f} s ago. "
        f"Warmed {plan.warmed} times: {plan.warmed_tokens} tokens, {plan.warmed_cached_tokens} of them cached "
        f"already, {plan.warmed_usd:.6f} US dollars"
    )
