"""`understudy learn replay`: plan it, run it by hand, go on with it, see what it did and what that cost, take it back."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import orjson

from admin.operations.replay import stop
from admin.page import Asked, NotThere, Summary
from admin.sources import Sources
from store import Store
from store.jobs.leases import LeaseOver
from store.jobs.replay_jobs import AnotherReplayRuns, NotThatRun
from store.jobs.replay_records import NewStep, ReplayBudget, ReplayRun
from understudy.commands.auditing import note
from understudy.commands.configured import config_in
from understudy.commands.data_folder import data_option, store_in
from understudy.commands.giving_up import give_up
from understudy.commands.made import command, reading
from understudy.commands.replay_tables import (
    RUN,
    SPEND,
    STEP,
    as_json,
    plan_json,
    plan_table,
    run_rows,
    spent_in_words,
)
from understudy.commands.tenant_option import NoSuchTenant, tenant_named, tenant_option
from understudy.settings.config import Config

_JSON = click.option("--json", "as_json_", is_flag=True, help="For machines.")


@click.group(invoke_without_command=True)
@click.option(
    "--config", "config_path", type=click.Path(path_type=Path), help="The gateway's configuration file."
)
@click.option("--plan", "only_plan", is_flag=True, help="Print what it would do, and ask no engine.")
@tenant_option("Only this tenant's examples.")
@click.option("--budget-usd", type=click.FloatRange(min=0), help="US dollars [replay.max_run_usd].")
@click.option("--budget-tokens", type=click.IntRange(min=0), help="Tokens [replay.advanced.max_run_tokens].")
@click.option(
    "--budget-minutes",
    type=click.FloatRange(min=0),
    help="Of engines' time [120].",
)
@click.option("--resume", is_flag=True, help="Go on with the latest run that ended before its plan did.")
@_JSON
@click.pass_context
def replay(
    context: click.Context,
    config_path: Path | None,
    only_plan: bool,
    tenant: str | None,
    budget_usd: float | None,
    budget_tokens: int | None,
    budget_minutes: float | None,
    resume: bool,
    as_json_: bool,
) -> None:
    """Improve the stored answers that matter most, within a budget. See docs/explanation/replay.md.

    Needs --config; a gateway may be running on its data folder. Ctrl-C stops it, and --resume goes on.
    """
    if context.invoked_subcommand is not None:
        return
    if config_path is None:
        raise click.UsageError("--config FILE is needed: it names the engines and the data folder")
    config = config_in(config_path)
    budget = _budget(config, budget_usd, budget_tokens, budget_minutes)
    widened = None if (budget_usd, budget_tokens, budget_minutes) == (None, None, None) else budget
    try:
        if only_plan:
            steps = asyncio.run(_plan(config, budget, tenant))
            click.echo(orjson.dumps(plan_json(steps, budget)) if as_json_ else plan_table(steps, budget))
            return
        run, spent = asyncio.run(_run(config, budget, widened, tenant, resume))
    except KeyboardInterrupt:
        give_up("stopped; `understudy learn replay --resume` goes on where it was", status=130)
    click.echo(orjson.dumps(spent) if as_json_ else f"run {run.id}: {run.state}. {run.note}".strip())
    if not as_json_:
        click.echo(spent_in_words(spent))
    if run.state == "failed":
        sys.exit(1)


def listed(sources: Sources, asked: Asked) -> Summary:
    """Runs, newest first."""
    jobs = sources.store.jobs.replay
    return {"runs": run_rows(as_json(jobs, run) for run in jobs.runs(limit=asked.whole("limit", 20)))}


def shown(sources: Sources, asked: Asked) -> Summary:
    """One run with its steps and what it cost."""
    jobs, id = sources.store.jobs.replay, asked.whole("run", 0)
    found = jobs.run(id)
    if found is None:
        raise NotThere(f"there is no run {id}; `understudy learn replay list` shows them")
    return as_json(jobs, found, steps=True)


replay.add_command(
    reading(
        "list",
        "List runs, newest first: what they did and what they cost.",
        listed,
        options=[click.Option(["--limit"], default=20, show_default=True, type=click.IntRange(min=1))],
        rows="runs",
        tables={"runs": RUN},
        nothing="nothing was replayed yet",
    )
)
replay.add_command(
    reading(
        "show",
        "Show one run: its steps and their results, and what it cost by engine and purpose.",
        shown,
        options=[click.Argument(["run"], type=int)],
        tables={"steps": STEP, "spend": SPEND},
    )
)
replay.add_command(command(stop))


@replay.command()
@data_option()
@click.argument("run", type=int, required=False)
@click.option("--example", type=int, metavar="ID", help="Only this example's last replay; needs --tenant.")
@tenant_option("Whose example.")
def undo(data: Path, run: int | None, example: int | None, tenant: str | None) -> None:
    """Revert all that RUN did, or one example's last replay: old answers return, written examples go.

    What a person corrected since stays as it is. Running gateways see it at once.
    """
    if (run is None) == (example is None) or (example is not None and tenant is None):
        raise click.UsageError("name a run, or --example ID with --tenant NAME")
    from learning.replay.run import take_back_example, take_back_run

    with store_in(data) as store:
        try:
            if run is not None:
                done = asyncio.run(take_back_run(store, run))
            else:
                assert example is not None and tenant is not None
                done = asyncio.run(take_back_example(store, tenant_named(store.keys, tenant), example))
        except NotThatRun as error:
            give_up(str(error))
        told = {"restored": done.restored, "removed": done.removed, "left": done.left}
        note(store, "replay/undo", f"run {run}" if run is not None else f"example {example}", told)
    click.echo(
        f"{done.restored} answers restored, {done.removed} written examples removed, "
        f"{done.left} changed since and left alone"
    )
    if example is not None and not done.restored:
        sys.exit(1)


def _budget(config: Config, usd: float | None, tokens: int | None, minutes: float | None) -> ReplayBudget:
    from understudy.setup.replay import budget_of

    given = budget_of(config)
    return ReplayBudget(
        given.usd if usd is None else usd,
        given.tokens if tokens is None else tokens,
        given.seconds if minutes is None else 60 * minutes,
    )


async def _plan(config: Config, budget: ReplayBudget, tenant: str | None) -> Sequence[NewStep]:
    from understudy.setup.replay import CannotReplay, opened

    try:
        async with opened(config) as made:
            return await made.plan(budget, _tenant(made.store, tenant))
    except (CannotReplay, NoSuchTenant) as error:
        give_up(str(error))


async def _run(
    config: Config, budget: ReplayBudget, widened: ReplayBudget | None, tenant: str | None, resume: bool
) -> tuple[ReplayRun, dict[str, Any]]:
    from understudy.commands.replay_progress import shown
    from understudy.setup.replay import CannotReplay, opened

    try:
        async with opened(config) as made:
            whose = _tenant(made.store, tenant)
            with shown() as progress:
                if resume:
                    last = made.unfinished(whose or None)
                    if last is None:
                        give_up("no run is left unfinished")
                    run = await made.take_up(last.id, progress=progress, budget=widened)
                else:
                    run = await made.run(budget, whose, progress=progress)
            note(
                made.store, "replay/resume" if resume else "replay/run", f"run {run.id}", {"state": run.state}
            )
            return run, as_json(made.jobs, run)
    except (CannotReplay, NoSuchTenant, AnotherReplayRuns, NotThatRun, LeaseOver) as error:
        give_up(str(error))


def _tenant(store: Store, name: str | None) -> str:
    return "" if name is None else tenant_named(store.keys, name)
