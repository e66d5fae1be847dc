"""`understudy runs`: applications' runs, in a person's hands. Shows no text of any step or value."""

from __future__ import annotations

import click

from admin.operations.runs import cancel, resolve
from admin.page import Asked, Summary
from admin.sources import Sources
from admin.summaries.run import run
from admin.summaries.runs import STATES
from admin.summaries.runs import runs as listed
from understudy.commands.made import command, reading, tenant_option

_RUN = (
    *("id", "state", "done", "steps", "waits", "prompt_tokens", "completion_tokens", "cost_usd"),
    *("created_at_s", "took_ms", "workflow", "app", "tenant_name", "failure"),
)
_STEP = (
    *("id", "name", "state", "primitive", "component", "engine", "replica", "attempts"),
    *("prompt_tokens", "cached_tokens", "completion_tokens", "cost_usd", "why"),
)
_VARIABLE = ("id", "name", "step", "state", "got", "size_bytes", "why")


@click.group()
def runs() -> None:
    """List, show and cancel runs of applications, and decide about steps whose outcome is unknown."""


def figures(sources: Sources, asked: Asked) -> Summary:
    """One run without what only draws it."""
    summary = run(sources, asked)
    drawn = ("graph", "ticks", "critical_path")
    return {name: value for name, value in summary.items() if name not in drawn}


runs.add_command(
    reading(
        "list",
        "List the latest runs: how far each is, its tokens, what it cost and how long it took.",
        listed,
        options=[
            tenant_option("Whose; without it everybody's."),
            click.Option(["--app"], help="Of this application only."),
            click.Option(["--workflow"], help="Of this workflow only."),
            click.Option(["--state"], type=click.Choice(STATES), help="In this state only."),
            click.Option(
                ["--limit"], default=20, show_default=True, type=click.IntRange(1, 1000), help="How many."
            ),
        ],
        rows="rows",
        tables={"rows": _RUN},
        nothing="No runs.",
    )
)
runs.add_command(
    reading(
        "show",
        "Show one run: its steps with state, engine, tokens and cost, what failed and what waits for a decision.",
        figures,
        options=[click.Argument(["id"], metavar="RUN")],
        tables={"rows": _STEP, "unknown": ("id", "name", "component", "decided"), "variables": _VARIABLE},
    )
)
runs.add_command(command(cancel))
runs.add_command(command(resolve))
