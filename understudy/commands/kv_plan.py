"""`understudy kv-plan`: which examples' prefixes each engine keeps warm, what that rests on, and what warming has cost."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

import click
import orjson

from store.jobs.kv_plans import KvPlanRow, KvPlans
from understudy.commands.data_folder import data_option, store_in


@click.command("kv-plan")
@data_option()
@click.option("--json", "as_json", is_flag=True, help="For machines, with every planned example.")
def kv_plan(data: Path, as_json: bool) -> None:
    """Show the plan of every engine; no text of any example."""
    with store_in(data) as store:
        plans = KvPlans(store.db)
        rows = [(plan, plans.examples(plan.engine)) for plan in plans.plans()]
    if as_json:
        told = [asdict(plan) | {"examples": [asdict(e) for e in examples]} for plan, examples in rows]
        click.echo(orjson.dumps(told, option=orjson.OPT_INDENT_2).decode())
        return
    for plan, _ in rows:
        click.echo(_in_words(plan))
    if not rows:
        click.echo("no plan was made yet: see replay.advanced.kv_plan in the configuration")


def _in_words(plan: KvPlanRow) -> str:
    figures = plan.figures
    line = figures.get("ms_per_token")
    pace = "pace not yet known" if line is None else f"{line:.3f} ms per prompt token"
    return (
        f"{plan.engine}: {figures['examples']} of {figures['of']} used examples in {figures['blocks']} of "
        f"{figures['room_blocks']} blocks ({'exact' if figures['exact'] else 'greedy'}), {pace}; planned "
        f"{time.time() - plan.planned_at_s:.0f} s ago. Warmed {plan.warmed} times: {plan.warmed_tokens} tokens, "
        f"{plan.warmed_cached_tokens} of them warm already, {plan.warmed_usd:.6f} US dollars"
    )
