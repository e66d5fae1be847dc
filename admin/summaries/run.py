"""One run: its graph by class and state, a waterfall of its steps, the critical path, and what its variables came to.

Of a workflow's run also what each step is, who shared its batches, what was computed early, and what a chain of modules
would have taken.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from admin.formats import count, figure, usd
from admin.page import Asked, NotThere, Summary
from admin.roles import Content
from admin.run_drawing import NODE_HEIGHT, NODE_WIDTH, drawn
from admin.sources import Sources
from admin.summaries.runs import listed
from admin.time_bars import bar, ticks
from store.workflows.records import Failure, Run, RunBudget, RunSummary, Sharer, Step, Variable, WholeRun
from workflows.graph import Graph
from workflows.graph import Step as GraphStep
from workflows.measured import Measured, module_chain_s

STEPS_SHOWN = 200
"""At once; of a longer run the graph is not drawn."""
_VARIABLES_SHOWN = 500
_NAME_CHARACTERS = 17
PHASES = ("waiting", "queued", "prefill", "decode")
"""waiting: for inputs. queued: for an engine. prefill: until the first token. decode: until the last."""


def run(sources: Sources, asked: Asked) -> Summary:
    """The run that the path names; `from`: the first step that is listed. Raises NotThere."""
    whole = sources.store.runs.run(asked.path["id"])
    if whole is None:
        raise NotThere("This run is not kept, or not any more.")
    first = asked.whole("from", 0)
    told = _Told(whole, whole.run.ended_at_s or asked.now_s)
    names = sources.tenant_names()
    key_names = {key.id: key.name for key in sources.store.keys.listed()}
    more = first + STEPS_SHOWN < len(whole.steps)
    ordered = sorted(whole.steps, key=_begun_s) if whole.run.workflow else whole.steps
    shown = ordered[first : first + STEPS_SHOWN]
    batches = sorted({step.progress.batch for step in shown if step.progress.batch})
    shared = _shared(whole.run.id, sources.store.runs.sharers(batches) if batches else ())
    return {
        **listed(_summed(whole), names, asked.now_s),
        **_facts(whole.run),
        "key_name": key_names.get(whole.run.key_id, ""),
        "critical_path": [{"id": id, "name": told.name(id)} for id in told.critical],
        "critical_ms": 1000 * sum(told.busy_s(id) for id in told.critical),
        "graph": _drawing(told),
        "ticks": ticks(told.span_s),
        "rows": [_step(step, told, shared) for step in shown],
        "unknown": [_unknown(step, told) for step in whole.steps if step.progress.state == "unknown"],
        "chain_ms": _chain_ms(told),
        "from": first,
        "next": first + STEPS_SHOWN if more else None,
        "variables": [_variable(each, told) for each in whole.variables[:_VARIABLES_SHOWN]],
        "more_variables": max(0, len(whole.variables) - _VARIABLES_SHOWN),
    }


class _Told:
    """A run, with what follows from how its steps feed each other. `until_s`: its end, or now."""

    def __init__(self, whole: WholeRun, until_s: float) -> None:
        self.whole = whole
        self.until_s = until_s
        self.span_s = until_s - whole.run.created_at_s
        self.steps = {step.plan.id: step for step in whole.steps}
        self.graph = Graph(
            GraphStep(
                *(step.plan.id, step.plan.name, {}, {}, step.plan.reads, step.plan.writes, ()),
                waits=step.plan.waits,
            )
            for step in whole.steps
        )
        self.critical = whole.run.critical_path or self.graph.critical_path(self.busy_s)

    def name(self, id: str) -> str:
        """A step's name, for people. Of a workflow's run the id says which piece it is."""
        if self.whole.run.workflow:
            return id
        step = self.steps.get(id)
        return step.plan.name or id if step is not None else id

    def phases(self, id: str) -> dict[str, float]:
        """Seconds in each of PHASES. A phase of which nobody told the end lasts until the next end that is known."""
        told = self.steps[id].progress
        ended_s = told.ended_at_s if told.ended_at_s is not None else self.until_s
        began_s = told.started_at_s if told.started_at_s is not None else told.first_at_s
        ready_s = told.ready_at_s if told.ready_at_s is not None else ended_s
        edges = [ended_s]
        for edge in (told.first_at_s, began_s, ready_s, self.whole.run.created_at_s):
            edges.append(edges[-1] if edge is None else min(edges[-1], edge))
        edges.reverse()
        return {phase: edges[place + 1] - edges[place] for place, phase in enumerate(PHASES)}

    def begun(self) -> list[Step]:
        """The steps that were at work."""
        told = [step for step in self.whole.steps if step.progress.ended_at_s is not None]
        return [step for step in told if step.progress.started_at_s or step.progress.queued_at_s]

    def measured(self, step: Step) -> Measured:
        """When a step was at work, as a part of its module."""
        told = step.progress
        began_s = told.started_at_s or told.queued_at_s or 0.0
        return Measured(step.plan.id, _module(step.plan.id), began_s, max(began_s, told.ended_at_s or 0.0))

    def busy_s(self, id: str) -> float:
        """Seconds since a step's inputs were there."""
        return sum(seconds for phase, seconds in self.phases(id).items() if phase != "waiting")


def _summed(whole: WholeRun) -> RunSummary:
    progress = [step.progress for step in whole.steps]
    return RunSummary(
        whole.run,
        Counter(each.state for each in progress),
        sum(each.prompt_tokens for each in progress),
        sum(each.cached_tokens for each in progress),
        sum(each.completion_tokens for each in progress),
        sum(each.cost_usd for each in progress),
    )


def _facts(run: Run) -> dict[str, Any]:
    return {
        "goes_on": run.ended_at_s is None,
        "key": run.key_id,
        "ended_at_s": run.ended_at_s,
        "values_until_s": run.expires_at_s,
        "background": run.background,
        "stored": not run.no_store,
        "adoptions": run.adoptions,
        "budget": {"usd": run.budget.usd, "tokens": run.budget.tokens, "seconds": run.budget.seconds},
        "budget_says": _budget(run.budget),
        "why": _failure(run.failure),
    }


def _budget(budget: RunBudget) -> list[str]:
    """Its limits in words; empty without one."""
    limits = (
        (budget.usd, usd(budget.usd)),
        (budget.tokens, f"{count(budget.tokens)} tokens"),
        (budget.seconds, f"{figure(budget.seconds)} s"),
    )
    return [words for limit, words in limits if limit is not None]


# ---- steps and variables


def _begun_s(step: Step) -> float:
    """When its work began: the steps of a workflow come to be in another order."""
    told = step.progress
    known = (at for at in (told.started_at_s, told.queued_at_s, told.ready_at_s) if at is not None)
    return next(known, math.inf)


def _chain_ms(told: _Told) -> float | None:
    """What a chain of modules would have taken; None while a run goes on, and where it has no modules."""
    run = told.whole.run
    if not run.workflow or run.ended_at_s is None:
        return None
    return 1000 * module_chain_s(map(told.measured, told.begun()))


def _module(step: str) -> str:
    """The step of the definition that a step is a part of: `found` of `found.search[1]`."""
    return re.split(r"[.\[]", step, maxsplit=1)[0]


def _unknown(step: Step, told: _Told) -> dict[str, Any]:
    """A step that waits for a person."""
    return {
        "id": step.plan.id,
        "name": told.name(step.plan.id),
        "component": step.plan.component,
        "asked_at_s": step.progress.started_at_s or step.progress.queued_at_s,
        "decided": step.resolution.how if step.resolution is not None else "",
    }


def _shared(run_id: str, sharers: Sequence[Sharer]) -> dict[str, dict[str, Any]]:
    """By batch: who was in it."""
    told: dict[str, dict[str, Any]] = {}
    for one in sharers:
        batch = told.setdefault(one.batch, {"id": one.batch, "items": 0, "steps": [], "others": []})
        batch["items"] += one.items
        if one.run_id == run_id:
            batch["steps"].append(one.step)
        elif one.run_id not in batch["others"]:
            batch["others"].append(one.run_id)
    return told


def _step(step: Step, told: _Told, shared: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    progress, plan = step.progress, step.plan
    phases = told.phases(plan.id)
    return {
        "id": plan.id,
        "name": told.name(plan.id),
        "primitive": plan.primitive,
        "component": plan.component,
        "effects": plan.effects,
        "items": progress.items,
        "batch": shared.get(progress.batch),
        "model": plan.model,
        "state": progress.state,
        "rank": progress.rank,
        "group": progress.group,
        "depth": told.graph.depth(plan.id),
        "critical": plan.id in told.critical,
        "attempts": progress.attempts,
        "engine": progress.engine,
        "replica": progress.replica,
        "request_id": progress.request_id,
        "prompt_tokens": progress.prompt_tokens,
        "cached_tokens": progress.cached_tokens,
        "completion_tokens": progress.completion_tokens,
        "cost_usd": progress.cost_usd,
        "phases_ms": {phase: 1000 * seconds for phase, seconds in phases.items()},
        "bars": _bars(phases, told.span_s),
        "feeds": sorted(told.name(id) for id in told.graph.after(plan.id)),
        "why": _failure(progress.failure),
    }


def _bars(phases: Mapping[str, float], span_s: float) -> list[dict[str, Any]]:
    bars, at_s = [], 0.0
    for phase, seconds in phases.items():
        if seconds > 0:
            bars.append(bar(phase, at_s, seconds, span_s))
        at_s += seconds
    return bars


def _variable(variable: Variable, told: _Told) -> dict[str, Any]:
    return {
        "id": variable.id,
        "name": variable.name,
        "step": variable.step,
        "step_name": told.name(variable.step),
        "state": variable.state,
        "got": told.whole.run.gets.get(variable.id, ""),
        "size_bytes": variable.size_bytes,
        "attempt": variable.attempt,
        "why": _failure(variable.failure),
    }


def _failure(failure: Failure | None) -> dict[str, Any] | None:
    if failure is None:
        return None
    return {
        "code": failure.code,
        "status": failure.status,
        "chain": list(failure.chain),
        # It may quote what was asked.
        "message": Content(failure.message) if failure.message else None,
    }


# ---- the graph


def _drawing(told: _Told) -> dict[str, Any] | None:
    """None without steps, and where they are too many to draw."""
    if not 0 < len(told.steps) <= STEPS_SHOWN:
        return None
    graph, critical = told.graph, frozenset(told.critical)
    made = drawn({id: graph.before(id) for id in told.steps}, {id: graph.depth(id) for id in told.steps})
    return {
        "width": made.width,
        "height": made.height,
        "node_width": NODE_WIDTH,
        "node_height": NODE_HEIGHT,
        "nodes": [
            {
                "id": id,
                "x": x,
                "y": y,
                "name": _cut(told.name(id)),
                "primitive": told.steps[id].plan.primitive,
                "rank": told.steps[id].progress.rank,
                "state": told.steps[id].progress.state,
                "critical": id in critical,
            }
            for id, (x, y) in made.nodes.items()
        ],
        "edges": [
            {"from": one, "to": other, "path": path, "critical": {one, other} <= critical}
            for one, other, path in made.edges
        ],
    }


def _cut(name: str) -> str:
    return name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 1]}…"
