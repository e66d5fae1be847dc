"""Checks the names of a definition: what they refer to, what each holds, and that nothing waits for itself."""

from __future__ import annotations

import graphlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from workflows.declaring.faults import Faults, meant
from workflows.declaring.fields import Fields
from workflows.declaring.steps import default_component
from workflows.declaring.world import World
from workflows.definition import InputSpec, StepSpec
from workflows.errors import WorkflowError
from workflows.transform import Held, held_by

Holds = Literal["text", "list", "either", "vectors", "index"]
"""The content of a name's value, as far as the definition tells."""
_FORM = "{{{{{}}}}}"
_MOST_CYCLES = 10


def known_names(
    inputs: Mapping[str, InputSpec], steps: Mapping[str, StepSpec], written: frozenset[str], faults: Faults
) -> None:
    """Every name that a step refers to is an input or a step. `written`: all steps, those that could not be read, too."""
    for step in steps.values():
        for name in step.needs:
            if name not in inputs and name not in written:
                field = _field_of(step, name)
                remedy = meant(name, [*inputs, *steps], _FORM)
                faults.add(step.name, field, f"nothing is called {name!r}", remedy, value=_FORM.format(name))
        for name in step.after:
            if name not in written:
                faults.add(
                    step.name, "after", "there is no step of this name", meant(name, steps), value=name
                )
        if step.condition is not None:
            _condition(step, step.condition, steps, written, faults)


def _condition(
    step: StepSpec,
    condition: tuple[str, bool],
    steps: Mapping[str, StepSpec],
    written: frozenset[str],
    faults: Faults,
) -> None:
    name, field = condition[0], "if" if condition[1] else "unless"
    tests = [each.name for each in steps.values() if each.kind == "when"]
    if name not in written:
        faults.add(step.name, field, "there is no step of this name", meant(name, tests), value=name)
    elif name in steps and steps[name].kind != "when":
        faults.add(step.name, field, "is not a `when` step", meant(name, tests), value=name)


def _field_of(step: StepSpec, name: str) -> str:
    """The field in which a step reads a name, for people."""
    if name in step.over:
        return step.kind
    if name == step.by:
        return "by"
    if step.index == f"step:{name}":
        return "in"
    if step.tool:
        return "args"
    return "chat"


# ---- order


def ordered(steps: Mapping[str, StepSpec], chained: bool, faults: Faults) -> tuple[str, ...]:
    """The steps, each after those it refers to. Steps that wait for themselves are faults, a fault for each circle."""
    before = _before(steps)
    if chained:
        _refuse_later(steps, before, faults)
        return tuple(steps)
    for _ in range(_MOST_CYCLES):
        try:
            return tuple(graphlib.TopologicalSorter(before).static_order())
        except graphlib.CycleError as error:
            # Each stands before the next; people read who waits for whom.
            circle = list(reversed(error.args[1]))
            problem = f"it waits for itself: {' -> '.join(circle)}"
            faults.add(circle[0], "", problem, "take one of these references away")
            before[circle[0]] = before[circle[0]] - {circle[1]}
    return ()


def _before(steps: Mapping[str, StepSpec]) -> dict[str, frozenset[str]]:
    return {name: frozenset(each for each in step.refers if each in steps) for name, step in steps.items()}


def _refuse_later(
    steps: Mapping[str, StepSpec], before: Mapping[str, frozenset[str]], faults: Faults
) -> None:
    """In a chain a step refers to earlier ones only."""
    place = {name: index for index, name in enumerate(steps)}
    for name in steps:
        for other in sorted(before[name], key=place.__getitem__):
            if place[other] >= place[name]:
                problem = f"it refers to {other!r}, which does not come before it in the chain"
                faults.add(name, "", problem, "change the order, or write `steps`")


def depth(order: tuple[str, ...], steps: Mapping[str, StepSpec], chained: bool) -> int:
    """Steps on the longest way."""
    if chained:
        return len(order)
    depths: dict[str, int] = {}
    for name, before in _before({name: steps[name] for name in order}).items():
        depths[name] = 1 + max((depths[each] for each in before), default=0)
    return max(depths.values(), default=0)


# ---- what a value is


def with_components(
    order: tuple[str, ...], steps: Mapping[str, StepSpec], world: World, faults: Faults
) -> dict[str, StepSpec]:
    """The steps, with embedders in place where another step tells: an index's are those of its vectors."""
    found = dict(steps)
    for name in order:
        step = found[name]
        if step.kind == "ingest":
            found[name] = _taken_over(step, found.get(step.over[0]), ("embed",), faults, world)
        elif step.kind == "search" and step.index.startswith("step:"):
            index = found.get(step.index.removeprefix("step:"))
            found[name] = _taken_over(step, index, ("ingest",), faults, None)
    return {name: found[name] for name in steps}


def _taken_over(
    step: StepSpec, source: StepSpec | None, kinds: tuple[str, ...], faults: Faults, world: World | None
) -> StepSpec:
    """The step with its source's component, where the source is of such a kind; else with the default."""
    if source is not None and source.kind in kinds:
        if step.component not in ("", source.component):
            problem = f"the vectors of {source.name!r} are of {source.component!r}"
            remedy = "leave it out: vectors of two embedders cannot be compared"
            faults.add(step.name, "component", problem, remedy, value=step.component)
        return replace(step, component=source.component)
    if step.component or world is None:
        return step
    return replace(
        step, component=default_component(Fields(faults, step.name, {}), world, "component", "embed")
    )


def check_values(
    order: tuple[str, ...], inputs: Mapping[str, InputSpec], steps: Mapping[str, StepSpec], faults: Faults
) -> Mapping[str, Holds]:
    """Return what each name holds; a fault if a step cannot work on it."""
    holds: dict[str, Holds] = {name: _of_input(each) for name, each in inputs.items()}
    for name in order:
        _check_reads(steps[name], holds, faults)
        holds[name] = _of_step(steps[name], holds, faults)
    return holds


def _of_input(spec: InputSpec) -> Holds:
    match spec.kind:
        case "texts":
            return "list"
        case "json":
            return "either"
        case _:
            return "text"


def _of_step(step: StepSpec, holds: Mapping[str, Holds], faults: Faults) -> Holds:
    match step.kind:
        case "chat":
            return "text" if step.splits is None else "list"
        case "embed":
            return "vectors"
        case "ingest":
            return "index"
        case "fold" | "loop" | "tool" | "when":
            return "text"
        case "first_of":
            among = {holds[name] for name in step.over if name in holds}
            return next(iter(among)) if len(among) == 1 else "either"
        case "transform":
            return _transformed(step, holds, faults)
        case _:
            return "list"


def _transformed(step: StepSpec, holds: Mapping[str, Holds], faults: Faults) -> Holds:
    held: Held = "either"
    for name in step.over:
        found = holds.get(name, "either")
        held = found if found == "text" or found == "list" else "either"
    try:
        return held_by(step.transforms, held)
    except WorkflowError as error:
        faults.add(
            step.name, "apply", error.message.removeprefix("``: ").rstrip("."), "correct the transform"
        )
        return "either"


_LISTS_ONLY = ("map", "fold", "rerank")
_SHOWN: Mapping[Holds, str] = {
    "text": "a text",
    "list": "a list",
    "either": "a value",
    "vectors": "vectors",
    "index": "an index",
}


def _check_reads(step: StepSpec, holds: Mapping[str, Holds], faults: Faults) -> None:
    for name in step.over:
        found = holds.get(name, "either")
        problem = _unfit(step, found)
        if problem:
            faults.add(step.name, step.kind, f"{_FORM.format(name)} holds {_SHOWN[found]}", problem)
    for name in step.reads:
        found = holds.get(name, "either")
        field = _field_of(step, name)
        if field == "in":
            if found != "index":
                problem = f"{_FORM.format(name)} holds {_SHOWN[found]}, not an index"
                faults.add(step.name, "in", problem, "search in an `ingest` step")
        elif found in ("vectors", "index"):
            problem = f"{_FORM.format(name)} holds {_SHOWN[found]}, which no text can show"
            faults.add(step.name, field, problem, "read the step that it was made of, or a `search`")
    if step.by and holds.get(step.by) == "list":
        remedy = "add a `transform` that joins them"
        faults.add(step.name, "by", f"{_FORM.format(step.by)} holds a list, not one text", remedy)


def _unfit(step: StepSpec, found: Holds) -> str:
    """Why a step cannot work on such a value, as a remedy; empty if it can."""
    if found == "vectors":
        return "" if step.kind == "ingest" else "only `ingest` takes vectors"
    if found == "index":
        return "only a `search` reads it: write it there as `in`"
    if found == "text" and step.kind in _LISTS_ONLY:
        return f"`{step.kind}` needs a list: `split` it, give the chat `splits`, or ask a chat once"
    return ""
