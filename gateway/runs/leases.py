"""Holds on to the runs of this process, and carries on those of processes that ended.

Leases go by the store's clock: a process whose own is wrong takes nothing from one that lives. A step that had ended is not
asked again. One that was being asked is asked once more, which shows in its `attempts`. A call
whose client waited for it ended with its connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import orjson
import structlog

from gateway.runs.caller import Caller
from gateway.runs.cell import Cell
from gateway.runs.elsewhere import end_as
from gateway.runs.knobs import RunKnobs
from gateway.runs.live import LiveRun, cells_of, value_of, why
from gateway.runs.restoring import restored_workflow
from gateway.runs.saving import done
from store.errors import StoreError
from store.workflows.records import Failure, Run, RunChange, RunEnd, Step, Variable, VariableEnd, WholeRun
from store.workflows.runs import WorkflowRuns
from workflows.criteria import Criteria
from workflows.graph import Graph
from workflows.graph import Step as GraphStep
from workflows.progress import Progress, StepState

log = structlog.get_logger(__name__)

_PER_LEASE = 4
"""How often a lease is renewed while it lasts, so that one late write loses no run."""


class Runs(Protocol):
    """What carries them out: gateway.runs.runs."""

    owner: str
    store: WorkflowRuns
    knobs: RunKnobs
    now: Callable[[], float]

    @property
    def live(self) -> Mapping[str, LiveRun]: ...

    async def find(self, tenant: str, id: str, end_user: str) -> Cell | None: ...

    async def clock_s(self) -> float: ...

    async def adopt(self, run: LiveRun) -> None: ...

    def cancel(self, run: LiveRun) -> None: ...

    def drop(self, run: LiveRun) -> None: ...


class Leases:
    """`keep` runs until it is cancelled."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    async def keep(self) -> None:
        """Renew and adopt, again and again."""
        while True:
            try:
                await self._renew()
                await self._adopt()
            except StoreError as error:
                log.warning("run_leases_not_kept", error=error)
            except Exception as error:
                # Without leases other processes would take all of its runs over.
                log.error("run_leases_not_kept", error=type(error).__name__)
            await asyncio.sleep(self._runs.knobs.lease_s / _PER_LEASE)

    async def _renew(self) -> None:
        runs = self._runs
        mine = [run for run in runs.live.values() if run.ended is None]
        if not mine:
            return
        until_s = await runs.clock_s() + runs.knobs.lease_s
        held = await done(runs.store.renew(runs.owner, [run.id for run in mine], until_s))
        for run in mine:
            if run.id not in held and run.ended is None:
                runs.drop(run)

    async def _adopt(self) -> None:
        runs = self._runs
        now = await runs.clock_s()
        until_s = now + runs.knobs.lease_s
        ids = await done(await runs.store.reads(runs.store.adopt, runs.owner, now_s=now, until_s=until_s))
        for id in ids:
            whole = await runs.store.reads(runs.store.run, id)
            if whole is None or id in runs.live:
                continue
            log.info("run_adopted", run=id, steps=len(whole.steps))
            try:
                await self._take_over(whole, runs.now())
            except StoreError:
                raise
            except Exception as error:
                # The others are carried on all the same; this one is taken over again when its lease is over.
                log.error("run_not_carried_on", run=id, error=type(error).__name__)

    async def _take_over(self, whole: WholeRun, now: float) -> None:
        runs = self._runs
        if whole.run.no_store:
            await done(runs.store.save(runs.owner, [_lost(whole, now)]))
            return
        declared = bool(whole.run.workflow)
        run = restored_workflow(whole, runs.knobs.max_items) if declared else await restored(runs, whole)
        await runs.adopt(run)
        if whole.run.cancel_asked:
            runs.cancel(run)


async def restored(runs: Runs, whole: WholeRun) -> LiveRun:
    """A stored run as it is carried on."""
    row = whole.run
    graph, callers, attached = Graph(), {}, set()
    for step in whole.steps:
        read = _read(row.tenant, step)
        if read is None:
            continue
        plan, callers[step.plan.id], waits = read
        graph.add(plan)
        if waits:
            attached.add(plan.id)
    known = {variable.id: variable for variable in whole.variables}
    outside = await _outside(runs, row, graph)
    values = {id: value_of(v.value) for id, v in known.items() if v.state == "ready" and v.value is not None}
    values |= {id: c.value for id, c in outside.items() if c.state == "ready" and c.value is not None}
    failures = {id: why(v.failure) for id, v in known.items() if v.state in ("failed", "cancelled")}
    failures |= {id: c.failure or why(None) for id, c in outside.items() if c.ended and id not in values}
    states = {
        step.plan.id: StepState(step.progress.state) for step in whole.steps if step.plan.id in graph.steps
    }
    gets = {id: Criteria(criteria) for id, criteria in row.gets.items() if criteria in set(Criteria)}
    run = LiveRun(
        row.id,
        row.tenant,
        row.app,
        graph,
        Progress(graph, values=values, failures=failures, states=states, gets=gets),
        row.created_at_s,
        row.keep_values_s,
        False,
        row.background,
        row.budget,
        end_user=row.end_user,
    )
    run.callers = callers
    run.steps = {step.plan.id: step.progress for step in whole.steps if step.plan.id in graph.steps}
    for step in whole.steps:
        run.spent.usd += step.progress.cost_usd
        run.spent.tokens += step.progress.prompt_tokens + step.progress.completion_tokens
    run.left = attached
    run.cells = cells_of(run, graph.steps.values())
    for id, cell in run.cells.items():
        if id in known:
            _restore(cell, known[id])
    run.outside = outside
    return run


def _restore(cell: Cell, variable: Variable) -> None:
    cell.attempt = variable.attempt
    end_as(cell, variable)
    cell.kept = cell.ended


async def _outside(runs: Runs, row: Run, graph: Graph) -> dict[str, Cell]:
    found = {}
    for step in graph.steps.values():
        for name, id in step.reads.items():
            if graph.producer(id) is None and id not in found:
                cell = await runs.find(row.tenant, id, row.end_user)
                if cell is None:
                    cell = Cell(id, row.tenant, name=name)
                    cell.fail(why(Failure("expired", "Its value is no longer stored.")))
                found[id] = cell
    return found


def _read(tenant: str, step: Step) -> tuple[GraphStep, Caller, bool] | None:
    """A stored step; None for one whose body is gone."""
    if not step.plan.body:
        return None
    try:
        whole: Mapping[str, Any] = orjson.loads(step.plan.body)
        (plan,) = Graph.loaded(whole["step"]).steps.values()
        return plan, Caller.read(tenant, whole["caller"]), bool(whole["attached"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        log.error("run_step_unreadable", run=step.run_id, step=step.plan.id, error=type(error).__name__)
        return None


def _lost(whole: WholeRun, now_s: float) -> RunChange:
    """The end of a run whose values were in the memory of a process that ended."""
    failure = Failure(
        "restarted", "The process that held this run's values in memory (no-store) ended; ask again."
    )
    steps = {
        step.plan.id: replace(step.progress, state="failed", ended_at_s=now_s, failure=failure)
        for step in whole.steps
        if step.progress.state not in ("done", "failed", "cancelled", "skipped")
    }
    variables = [
        VariableEnd(v.id, "failed", failure=replace(failure, chain=(v.name,)))
        for v in whole.variables
        if v.state in ("pending", "streaming")
    ]
    return RunChange(whole.run.id, now_s, steps, (), variables, RunEnd("failed", now_s, failure))
