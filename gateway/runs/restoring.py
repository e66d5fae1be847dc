"""The run of a workflow as another process carries it on: the same graph, made of the definition and the stored values.

A tool with effects that was being asked is `unknown`. Vectors and indexes are made again where something still needs them.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.runs.elsewhere import end_as
from gateway.runs.growing import row_of, variables_of
from gateway.runs.live import LiveRun, cells_of, value_of, why
from gateway.runs.workflow import Flow
from store.workflows.records import Step, StepProgress, Variable, WholeRun
from workflows.criteria import Criteria
from workflows.graph import Graph
from workflows.names import StepId, VariableId
from workflows.progress import Progress, StepState

_BEING_ASKED = ("running", "unknown")


def restored_workflow(whole: WholeRun, max_items: int) -> LiveRun:
    """A stored run of a workflow. Raises what reading its context does, where that is not of this version."""
    row = whole.run
    flow = Flow.read(row.id, row.tenant, row.context, max_items)
    known = {variable.id: variable for variable in whole.variables}
    stored = {step.plan.id: step for step in whole.steps}
    values = {id: value_of(v.value) for id, v in known.items() if v.state == "ready" and v.value is not None}
    added = flow.unfolding.replay(values)
    graph = Graph(added.steps)
    for id, reads in added.reads:
        graph.read_more(id, reads)
    gets = {id: Criteria(criteria) for id, criteria in row.gets.items() if criteria in set(Criteria)}
    progress = Progress(
        graph,
        values=values | dict(flow.given),
        failures={id: why(v.failure) for id, v in known.items() if v.state in ("failed", "cancelled")},
        states={id: _state(graph, stored[id]) for id in graph.steps if id in stored},
        gets=gets,
    )
    run = LiveRun(
        row.id,
        row.tenant,
        row.app,
        graph,
        progress,
        row.created_at_s,
        row.keep_values_s,
        False,
        row.background,
        row.budget,
        flow=flow,
        end_user=row.end_user,
    )
    run.callers = dict.fromkeys(graph.steps, flow.caller)
    run.steps = {id: _progress(progress, step) for id, step in stored.items() if id in graph.steps}
    flow.stored = {id: tuple(step.plan.writes.values()) for id, step in stored.items()}
    for step in whole.steps:
        run.spent.usd += step.progress.cost_usd
        run.spent.tokens += step.progress.prompt_tokens + step.progress.completion_tokens
    new = [step for step in graph.steps.values() if step.id not in stored]
    run.grew(map(row_of, new), variables_of(new, end_user=run.end_user), held_back=False)
    run.cells = cells_of(run, graph.steps.values())
    _restore(run, known)
    return run


def _state(graph: Graph, step: Step) -> StepState:
    """A step's state, of which somebody else was in charge."""
    state, plan = step.progress.state, graph.steps[step.plan.id]
    if state in _BEING_ASKED and plan.effects and not plan.what.get("idempotent"):
        return StepState.UNKNOWN
    return StepState(state)


def _progress(progress: Progress, step: Step) -> StepProgress:
    """How far a step is. Where its value was in memory only, and is made again, that is no further attempt."""
    again = step.progress.state == "done" and progress.steps[step.plan.id] is not StepState.DONE
    return replace(step.progress, attempts=0) if again else step.progress


def _restore(run: LiveRun, known: dict[VariableId, Variable]) -> None:
    for id, cell in run.cells.items():
        if (variable := known.get(id)) is None:
            continue
        cell.attempt = variable.attempt
        if variable.state == "ready" and variable.value is None and not _is_over(run, variable.step):
            # It is made again.
            continue
        end_as(cell, variable)
        cell.kept = cell.ended


def _is_over(run: LiveRun, step: StepId) -> bool:
    """Whether nothing needs a step any more of which nothing is stored."""
    return run.progress.steps.get(step) is StepState.DONE


def unknown(run: LiveRun) -> list[StepId]:
    """Its steps of which nobody knows whether they took effect."""
    return [id for id, state in run.progress.steps.items() if state is StepState.UNKNOWN]
