"""A run as its rows tell it, for the worker that carries it on.

The steps of a client's graph are as they were stored. Those of a workflow are unfolded again from the definition and the
stored values, which gives the same graph. A tool with effects that was being asked is `unknown`. Vectors and indexes are
made again where something still needs them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson
import structlog

from store.workflows.records import (
    Failure,
    RunChange,
    RunEnd,
    Step,
    StepProgress,
    VariableEnd,
    WholeRun,
)
from workflows.criteria import Criteria
from workflows.graph import Graph, loaded
from workflows.graph import Step as Plan
from workflows.names import StepId, VariableId
from workflows.progress import Failure as WhyFailed
from workflows.progress import Progress, StepState
from workflows.running.cell import Cell
from workflows.running.door import Caller
from workflows.running.live import LiveRun, value_of, why
from workflows.running.workflow import Flow
from workflows.transform import Value

log = structlog.get_logger(__name__)

_BEING_ASKED = ("running", "unknown")
Find = Callable[[str, str, str], Awaitable[Cell | None]]
"""Finds a cell by tenant, a variable's id and an end user: `Runs.find`."""
ReadCaller = Callable[[str, Mapping[str, Any]], Caller]
"""`Door.caller`."""


async def outside_of(whole: WholeRun, find: Find) -> dict[VariableId, Cell]:
    """The variables that its steps read and others write."""
    if whole.run.workflow:
        return {}
    made = {id for step in whole.steps for id in step.plan.writes.values()}
    found: dict[VariableId, Cell] = {}
    for step in whole.steps:
        for name, id in step.plan.reads.items():
            if id in made or id in found:
                continue
            cell = await find(whole.run.tenant, id, whole.run.end_user)
            if cell is None:
                cell = Cell(id, name, whole.run.tenant)
                cell.fail(why(Failure("expired", "Its value is no longer stored.")))
            found[id] = cell
    return found


def restored(
    whole: WholeRun,
    max_items: int,
    outside: Mapping[VariableId, Cell],
    caller_of: ReadCaller,
    made: Callable[[VariableId, str], Cell],
) -> LiveRun:
    """A stored run. Raises what reading its context does, if that is not of this version."""
    row = whole.run
    stored = {step.plan.id: step for step in whole.steps}
    values, failures = _ended_before(whole, outside)
    flow = Flow.of_calls()
    left: set[StepId] = set()
    if row.workflow:
        flow = Flow.read(row.id, row.context, max_items)
        graph = flow.unfolding.replay(values).graph()
        values |= flow.given
        callers = dict.fromkeys(graph.steps, caller_of(row.tenant, row.context["caller"]))
    else:
        graph, callers, left = _submitted(whole, caller_of)
    progress = Progress(
        graph,
        values=values,
        failures=failures,
        states={id: _state(graph.steps[id], stored[id]) for id in graph.steps if id in stored},
        gets={id: Criteria(criteria) for id, criteria in row.gets.items() if criteria in set(Criteria)},
        made=made,
    )
    run = LiveRun(row, progress, callers, left=left, flow=flow)
    run.steps = {id: _progress(progress, step) for id, step in stored.items() if id in graph.steps}
    for step in whole.steps:
        run.spent.usd += step.progress.cost_usd
        run.spent.tokens += step.progress.prompt_tokens + step.progress.completion_tokens
    run.grew(id for id in graph.steps if id not in stored)
    known = {variable.id: variable for variable in whole.variables}
    for id, cell in run.cells.items():
        cell.kept = cell.ended
        if (variable := known.get(id)) is not None:
            cell.attempt, cell.expires_at_s = variable.attempt, variable.expires_at_s
    return run


def _ended_before(
    whole: WholeRun, outside: Mapping[VariableId, Cell]
) -> tuple[dict[VariableId, Value], dict[VariableId, WhyFailed]]:
    """Return the values and the failures of what ended already: the run's own variables, and those of others."""
    values: dict[VariableId, Value] = {}
    failures: dict[VariableId, WhyFailed] = {}
    for variable in whole.variables:
        if variable.state == "ready" and variable.value is not None:
            values[variable.id] = value_of(variable.value)
        elif variable.state in ("failed", "cancelled"):
            failures[variable.id] = why(variable.failure)
    for id, cell in outside.items():
        if cell.state == "ready" and cell.value is not None:
            values[id] = cell.value
        elif cell.ended and id not in values:
            failures[id] = cell.failure or why(None)
    return values, failures


def _submitted(whole: WholeRun, caller_of: ReadCaller) -> tuple[Graph, dict[StepId, Caller], set[StepId]]:
    """The graph that a client submitted, who asks each step, and those whose client's request ended with its worker."""
    graph, callers, left = Graph(), dict[StepId, Caller](), set[StepId]()
    for step in whole.steps:
        if not step.plan.body:
            continue
        try:
            kept: Mapping[str, Any] = orjson.loads(step.plan.body)
            plan = loaded(kept["step"])
            callers[plan.id] = caller_of(whole.run.tenant, kept["caller"])
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            log.error("run_step_unreadable", run=step.run_id, step=step.plan.id, error=type(error).__name__)
            continue
        graph.add(plan)
        if kept["attached"]:
            left.add(plan.id)
    return graph, callers, left


def _state(plan: Plan, step: Step) -> StepState:
    """A step's state, of which another worker was in charge."""
    state = step.progress.state
    if state in _BEING_ASKED and plan.effects and not plan.what.get("idempotent"):
        return StepState.UNKNOWN
    return StepState(state)


def _progress(progress: Progress, step: Step) -> StepProgress:
    """Return the progress of a step. If its value was in memory only, and is made again, that is no further attempt."""
    again = step.progress.state == "done" and progress.steps[step.plan.id] is not StepState.DONE
    return replace(step.progress, attempts=0) if again else step.progress


def lost_with_its_worker(whole: WholeRun, now_s: float) -> RunChange:
    """The end of a run whose values were in the memory of a worker that ended."""
    failure = Failure(
        "restarted", "The worker that held this run's values in memory (no-store) ended; ask again."
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
