"""`understudy runs`: applications' runs, in a person's hands. Shows no text of any step or value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

import click

from store.workflows.records import Failure, Resolution, RunState, RunSummary, Step, Variable, WholeRun
from understudy.commands.as_json import JSON, print_json
from understudy.commands.auditing import note
from understudy.commands.data_folder import data_option, store_in
from understudy.commands.giving_up import give_up
from understudy.commands.tenant_option import tenant_named, tenant_option

_WAIT_S = 30.0
_STATES: tuple[RunState, ...] = get_args(RunState)
_HOW = ("retry", "skip", "value")


@click.group()
def runs() -> None:
    """List, show and cancel runs of applications, and decide about steps whose outcome is unknown."""


@runs.command("list")
@data_option()
@tenant_option("Whose; without it everybody's.")
@click.option("--app", help="Of this application only.")
@click.option("--workflow", help="Of this workflow only.")
@click.option("--state", type=click.Choice(_STATES), help="In this state only.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="How many.")
@JSON
def list_(
    data: Path,
    tenant: str | None,
    app: str | None,
    workflow: str | None,
    state: RunState | None,
    limit: int,
    as_json: bool,
) -> None:
    """List the latest runs: how far each is, its tokens, what it cost and how long it took."""
    with store_in(data) as store:
        of = None if tenant is None else tenant_named(store.keys, tenant)
        found = store.runs.runs(
            tenant=of, app=app, workflow=workflow, states=(state,) if state else (), limit=limit
        )
        names = {key.tenant: key.tenant_name for key in store.keys.list()}
    if as_json:
        print_json([_summary(each, names) for each in found])
        return
    for each in found:
        click.echo(_line(_summary(each, names)))
    if not found:
        click.echo("No runs.")


@runs.command()
@click.argument("run_id", metavar="RUN")
@data_option()
@JSON
def show(run_id: str, data: Path, as_json: bool) -> None:
    """Show one run: its steps with state, class, engine, times, tokens and cost, and what failed."""
    with store_in(data) as store:
        whole = store.runs.run(run_id)
        names = {key.tenant: key.tenant_name for key in store.keys.list()}
    if whole is None:
        _no_such(run_id)
    if as_json:
        print_json(_told(whole, names))
        return
    click.echo("\n".join(_lines(whole, names)))


@runs.command()
@click.argument("run_id", metavar="RUN")
@data_option()
def cancel(run_id: str, data: Path) -> None:
    """Cancel a run that goes on. Its worker stops it within a second; without a running gateway, when one starts."""
    with store_in(data) as store:
        whole = store.runs.run(run_id)
        if whole is None:
            _no_such(run_id)
        asked = store.runs.request_cancel(whole.run.tenant, run_id).result(_WAIT_S)
        if asked:
            note(store, "runs/cancel", run_id, {})
    if not asked:
        give_up(f"run {run_id} has ended already: {whole.run.state}", 1)
    click.echo(f"asked to cancel {run_id}")


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.argument("step")
@click.argument("how", type=click.Choice(_HOW))
@click.option("--value", help="What the step is taken to have answered.")
@data_option()
def resolve(
    run_id: str, step: str, how: Literal["retry", "skip", "value"], value: str | None, data: Path
) -> None:
    """Decide about a step with side effects that was cut off while it was asked: look first whether it took effect.

    retry asks once more, skip goes on without it, value takes what --value says for its answer.
    """
    if (value is not None) != (how == "value"):
        raise click.UsageError("--value goes with value, and value with --value")
    with store_in(data) as store:
        whole = store.runs.run(run_id)
        if whole is None:
            _no_such(run_id)
        told = store.runs.resolve(whole.run.tenant, run_id, step, Resolution(how, value)).result(_WAIT_S)
        if told:
            note(store, "runs/resolve", run_id, {"step": step, "how": how})
    if not told:
        unknown = [each.plan.id for each in whole.steps if each.progress.state == "unknown"]
        give_up(f"step {step!r} does not wait for this; those that do: {', '.join(unknown) or 'none'}", 1)
    click.echo(f"told {run_id} to go on with {step}: {how}")


def _no_such(run_id: str) -> NoReturn:
    give_up(f"there is no run {run_id!r}; `understudy runs list` shows the latest", 1)


def _summary(each: RunSummary, names: dict[str, str]) -> dict[str, Any]:
    run = each.run
    return {
        "run": run.id,
        "tenant": run.tenant,
        "tenant_name": names.get(run.tenant, run.tenant),
        "app": run.app,
        "workflow": run.workflow,
        "version": run.version,
        "state": run.state,
        "steps": dict(each.steps),
        "prompt_tokens": each.prompt_tokens,
        "cached_tokens": each.cached_tokens,
        "completion_tokens": each.completion_tokens,
        "cost_usd": each.cost_usd,
        "created_at": _time(run.created_at_s),
        "took_s": None if run.ended_at_s is None else run.ended_at_s - run.created_at_s,
        "failure": _failure(run.failure),
    }


def _line(told: dict[str, Any]) -> str:
    steps = told["steps"]
    took = "" if told["took_s"] is None else f"  took {told['took_s']:.1f} s"
    tokens = told["prompt_tokens"] + told["completion_tokens"]
    why = f"  {told['failure']['code']}" if told["failure"] else ""
    unknown = f"  {steps['unknown']} unknown" if steps.get("unknown") else ""
    of = f"workflow {told['workflow']}" if told["workflow"] else f"app {told['app'] or '-'}"
    return (
        f"{told['run']}  {told['state']:9}  {steps.get('done', 0)}/{sum(steps.values())} steps"
        f"  {tokens} tokens  ${told['cost_usd']:.4f}  {told['created_at']}{took}"
        f"  {of}  tenant {told['tenant_name']}{unknown}{why}"
    )


def _told(whole: WholeRun, names: dict[str, str]) -> dict[str, Any]:
    run = whole.run
    steps = [_step(step) for step in whole.steps]
    return {
        "run": run.id,
        "tenant": run.tenant,
        "tenant_name": names.get(run.tenant, run.tenant),
        "key": run.key_id,
        "app": run.app,
        "workflow": run.workflow,
        "version": run.version,
        "state": run.state,
        "failure": _failure(run.failure),
        "background": run.background,
        "stored": not run.no_store,
        "budget": asdict(run.budget),
        "worker": next((step.claimed_by for step in whole.steps if step.progress.ended_at_s is None), ""),
        "adoptions": run.adoptions,
        "cancel_asked": run.cancel_asked,
        "created_at": _time(run.created_at_s),
        "ended_at": _time(run.ended_at_s),
        "values_until": _time(run.expires_at_s),
        "critical_path": list(run.critical_path),
        "round_trips_saved": run.round_trips_saved,
        "cost_usd": sum(step["cost_usd"] for step in steps),
        "steps": steps,
        "variables": [_variable(variable, run.gets.get(variable.id)) for variable in whole.variables],
    }


def _step(step: Step) -> dict[str, Any]:
    fields = asdict(step.progress)
    del fields["failure"]
    return {
        "step": step.plan.id,
        "name": step.plan.name,
        "primitive": step.plan.primitive,
        "model": step.plan.model,
        "component": step.plan.component,
        "effects": step.plan.effects,
        "reads": dict(step.plan.reads),
        "writes": dict(step.plan.writes),
        **fields,
        "failure": _failure(step.progress.failure),
    }


def _variable(variable: Variable, criteria: str | None) -> dict[str, Any]:
    return {
        "variable": variable.id,
        "name": variable.name,
        "step": variable.step,
        "state": variable.state,
        "criteria": criteria,
        "attempt": variable.attempt,
        "size_bytes": variable.size_bytes,
        "failure": _failure(variable.failure),
    }


def _failure(failure: Failure | None) -> dict[str, Any] | None:
    """Without its message, which may quote what the client sent."""
    if failure is None:
        return None
    return {"code": failure.code, "status": failure.status, "chain": list(failure.chain)}


def _lines(whole: WholeRun, names: dict[str, str]) -> Iterable[str]:
    told = _told(whole, names)
    of = f"workflow {told['workflow']}" if told["workflow"] else f"app {told['app'] or '-'}"
    yield f"{told['run']}  ({told['state']}; {of}, tenant {told['tenant_name']})"
    yield f"  began       {told['created_at']}, ended {told['ended_at'] or 'not yet'}"
    yield f"  cost        ${told['cost_usd']:.4f}"
    if told["adoptions"]:
        yield f"  adopted     {told['adoptions']} times, as the worker that had it ended"
    if told["failure"]:
        yield f"  failure     {_why(told['failure'])}"
    if told["critical_path"]:
        yield f"  critical    {' > '.join(told['critical_path'])}; {told['round_trips_saved']} round trips saved"
    for step in told["steps"]:
        yield f"  {_step_line(step)}"
    for step in told["steps"]:
        if step["state"] == "unknown":
            yield f"  waits       for `understudy runs resolve {told['run']} {step['step']} retry|skip|value`"


def _step_line(step: dict[str, Any]) -> str:
    where = "/".join(part for part in (step["component"], step["engine"], step["replica"]) if part) or "-"
    begun = step["ready_at_s"] if step["queued_at_s"] is None else step["queued_at_s"]
    took = "" if None in (begun, step["ended_at_s"]) else f"  {step['ended_at_s'] - begun:.2f} s"
    said = [f"{step['prompt_tokens']}+{step['completion_tokens']} tokens, {step['cached_tokens']} cached"]
    if step["primitive"] != "chat":
        said = [step["primitive"], *([f"{step['items']} items"] if step["items"] else [])]
    again = f"  {step['attempts']} attempts" if step["attempts"] > 1 else ""
    why = f"  {_why(step['failure'])}" if step["failure"] else ""
    return (
        f"{step['step']:8} {step['name']:20} {step['state']:9} {step['rank'] or '-':10} {where}{took}"
        f"  {', '.join(said)}  ${step['cost_usd']:.4f}{again}{why}"
    )


def _why(failure: dict[str, Any]) -> str:
    status = f" (status {failure['status']})" if failure["status"] else ""
    chain = f", from {' < '.join(failure['chain'])}" if failure["chain"] else ""
    return f"{failure['code']}{status}{chain}"


def _time(at_s: float | None) -> str | None:
    return None if at_s is None else datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")
