"""Reads a workflow's definition, and lists everything that is wrong with it.

inputs: {question: last_user, documents: texts}     steps: {name: {chat: …}, …}     or chain: [{name: {chat: …}}, …]
output: name      passes: [prune, …]      model: for steps that name none      description: for people
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, get_args

from workflows.declaring import names
from workflows.declaring.faults import DefinitionError, Fault, Faults, meant
from workflows.declaring.fields import NAME_REMEDY, Fields, is_name
from workflows.declaring.steps import read_step
from workflows.declaring.world import Does, World
from workflows.definition import PASSES, PLACES, Definition, InputKind, InputSpec, Pass, StepSpec, turns
from workflows.transform import Value

__all__ = ["DefinitionError", "Does", "Fault", "World", "read_definition", "valid_workflow"]

MAX_SOURCE_BYTES = 256 * 1024
"""The bytes of a definition as JSON."""
_MOST_NESTED = 64
"""Arrays and objects within one another."""
_FIELDS = ("description", "inputs", "model", "steps", "chain", "output", "passes")
_INPUT_FIELDS = ("kind", "default")
_INPUT_KINDS: tuple[InputKind, ...] = get_args(InputKind)
_WORKFLOW = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}")


def valid_workflow(name: object) -> bool:
    """Tell if it may name a workflow: 1 to 64 of `[A-Za-z0-9_.:-]`, as it stands in `model` and in a URL."""
    return isinstance(name, str) and _WORKFLOW.fullmatch(name) is not None


def read_definition(name: str, value: object, world: World) -> Definition:
    """The definition of a workflow, from its JSON. Raises DefinitionError with every fault that was found."""
    faults = Faults(name)
    source = _source(value, faults)
    faults.done()
    _check_name(name, world, faults)
    for field in source:
        if field not in _FIELDS:
            faults.add("", str(field), "there is no such field", meant(str(field), _FIELDS))
    inputs = _inputs(source.get("inputs"), faults)
    chained, written = _written(source, faults)
    steps = _steps(written, inputs, source, world, faults)
    names.known_names(inputs, steps, frozenset(written), faults)
    output = _output(source, written, faults)
    passes = _passes(source, world, faults)
    order = names.ordered(steps, chained, faults)
    faults.done()
    steps = names.with_components(order, steps, world, faults)
    holds = names.check_values(order, inputs, steps, faults)
    _check_whole(output, holds, names.depth(order, steps, chained), world, faults)
    faults.done()
    steps = {
        each.name: each
        for step in steps.values()
        for each in (turns(step) if step.kind == "loop" else (step,))
    }
    return Definition(name, inputs, steps, chained, output, passes, _version(source), source)


def _check_name(name: str, world: World, faults: Faults) -> None:
    if not valid_workflow(name):
        remedy = "write 1 to 64 of A-Z a-z 0-9 _ . : - with a letter, a digit or _ first"
        faults.add("", "", "is no name for a workflow", remedy, value=name)
    elif world.taken(name):
        faults.add("", "", f"a model is called {name!r}, too", "call the workflow something else")


def _source(value: object, faults: Faults) -> Mapping[str, Any]:
    """The definition's JSON: what YAML has beside JSON (dates, keys that are numbers) is a fault."""
    if not isinstance(value, Mapping):
        faults.add("", "", "is no mapping", "write `inputs`, `steps` or `chain`, and `output`", value=value)
        return {}
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        faults.add("", "", f"holds what JSON has not: {error}", "put quotes around dates")
        return {}
    if len(text) > MAX_SOURCE_BYTES:
        faults.add("", "", f"is longer than {MAX_SOURCE_BYTES} bytes", "make it two workflows")
    if _nested(value) > _MOST_NESTED:
        faults.add("", "", f"is nested deeper than {_MOST_NESTED}", "make it flatter")
    # Keys that are numbers or booleans become the texts that JSON makes of them, here as over HTTP.
    source: Mapping[str, Any] = json.loads(text)
    return source


def _nested(value: object) -> int:
    """Count the arrays and objects that stand within one another, up to one more than are allowed."""
    levels, within = 0, [value]
    while within and levels <= _MOST_NESTED:
        within = [
            inner
            for each in within
            if isinstance(each, Mapping | list)
            for inner in (each.values() if isinstance(each, Mapping) else each)
        ]
        levels += 1
    return levels


# ---- inputs


def _inputs(value: object, faults: Faults) -> dict[str, InputSpec]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        remedy = f"write names with kinds: {{question: last_user}}; kinds are {', '.join(_INPUT_KINDS)}"
        faults.add("", "inputs", "is no mapping", remedy, value=value)
        return {}
    return {name: _input(name, each, faults) for name, each in value.items() if _free_name(name, faults)}


def _free_name(name: str, faults: Faults) -> bool:
    """Tell if an input may be called so; a fault if not."""
    if not is_name(name):
        faults.add("", "inputs", "is no name for an input", NAME_REMEDY, value=name)
    elif name in PLACES:
        faults.add("", f"inputs.{name}", "the name is taken by `map`, `fold` and `loop`", "use another")
    else:
        return True
    return False


def _input(name: str, value: object, faults: Faults) -> InputSpec:
    place = f"inputs.{name}"
    fields: dict[str, Any] = value if isinstance(value, dict) else {"kind": value}
    for field in fields:
        if field not in _INPUT_FIELDS:
            faults.add("", f"{place}.{field}", "there is no such field", meant(field, _INPUT_FIELDS))
    written = fields.get("kind")
    kind = next((each for each in _INPUT_KINDS if each == written), None)
    if kind is None:
        remedy = meant(str(written), _INPUT_KINDS) if written else f"write one of {', '.join(_INPUT_KINDS)}"
        faults.add("", place, "is no kind of input", remedy, value=written)
        return InputSpec(name, "text")
    default = fields.get("default")
    if default is not None and not _fits(kind, default):
        wanted = "a list of texts" if kind == "texts" else "a text"
        faults.add("", f"{place}.default", f"is not {wanted}", f"write {wanted}", value=default)
        default = None
    if default is None and kind == "system":
        default = ""
    if kind == "json" and default is not None:
        default = from_json(default)
    return InputSpec(name, kind, default is None, default)


def _fits(kind: InputKind, value: object) -> bool:
    if kind == "texts":
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    return kind == "json" or isinstance(value, str)


def from_json(value: object) -> Value:
    """A `json` input's value: a list's items, texts as they are and all else as JSON; a text as it is."""
    return [_as_text(each) for each in value] if isinstance(value, list) else _as_text(value)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# ---- steps


def _written(source: Mapping[str, Any], faults: Faults) -> tuple[bool, dict[str, object]]:
    """(whether it is a chain, its steps as they were written)."""
    chain, steps = source.get("chain"), source.get("steps")
    if chain is not None and steps is not None:
        faults.add("", "chain", "there are `steps`, too", "keep `chain` or `steps`")
    if chain is not None:
        return True, _of_chain(chain, faults)
    if not isinstance(steps, dict) or not steps:
        problem = "is missing" if steps is None else "is no mapping of one step or more"
        faults.add("", "steps", problem, "write steps by name: {answer: {chat: …}}", value=steps)
        return False, {}
    return False, dict(steps)


def _of_chain(chain: object, faults: Faults) -> dict[str, object]:
    found: dict[str, object] = {}
    if not isinstance(chain, list) or not chain:
        faults.add("", "chain", "is no list of one step or more", "write - name: {chat: …}", value=chain)
        return found
    for index, each in enumerate(chain):
        if not isinstance(each, dict) or len(each) != 1:
            remedy = "write one name with its step: - name: {chat: …}"
            faults.add("", f"chain[{index}]", "is not one step with its name", remedy, value=each)
            continue
        ((name, step),) = each.items()
        if name in found:
            faults.add("", f"chain[{index}]", f"{name!r} is there twice", "call one of them something else")
        found[name] = step
    return found


def _steps(
    written: Mapping[str, object],
    inputs: Mapping[str, InputSpec],
    source: Mapping[str, Any],
    world: World,
    faults: Faults,
) -> dict[str, StepSpec]:
    if len(written) > world.max_steps:
        faults.add(
            "", "steps", f"there are {len(written)}", f"write {world.max_steps} at most (workflows.max_steps)"
        )
        return {}
    model = source.get("model")
    if model is not None and (not isinstance(model, str) or not world.is_model(model)):
        faults.add(
            "", "model", "there is no such model", "name one of `models`, or set `upstream`", value=model
        )
    found = {}
    for name, value in written.items():
        _check_step_name(name, inputs, faults)
        if not isinstance(value, dict):
            faults.add(name, "", "is no mapping", "write what it does: {chat: …}", value=value)
            continue
        step = read_step(Fields(faults, name, value), world, model if isinstance(model, str) else "")
        if step is not None:
            found[name] = step
    return found


def _check_step_name(name: str, inputs: Mapping[str, InputSpec], faults: Faults) -> None:
    if not is_name(name):
        faults.add(name, "", "is no name for a step", NAME_REMEDY)
    elif name in PLACES:
        faults.add(name, "", "the name is taken by `map`, `fold` and `loop`", "use another")
    elif name in inputs:
        faults.add(name, "", "an input has this name, too", "call one of them something else")


# ---- the whole


def _output(source: Mapping[str, Any], written: Mapping[str, object], faults: Faults) -> str:
    output = source.get("output")
    if output is None:
        remedy = "name the step that answers" + (f": {list(written)[-1]}" if written else "")
        faults.add("", "output", "is missing", remedy)
    elif output not in written:
        name = str(output)
        bare = name.strip("{}")
        remedy = f"write {bare}, without braces" if bare != name and bare in written else meant(name, written)
        faults.add("", "output", "there is no step of this name", remedy, value=output)
    return str(output)


_FORMER_PASS = "prefill"
"""A pass that is no more; workflows may still name it."""


def _passes(source: Mapping[str, Any], world: World, faults: Faults) -> frozenset[Pass]:
    value = source.get("passes")
    if value is None:
        return world.passes
    if not isinstance(value, list):
        remedy = f"write a list of {', '.join(PASSES)}; [] for none"
        faults.add("", "passes", "is no list", remedy, value=value)
        return frozenset()
    for each in value:
        if each not in (*PASSES, _FORMER_PASS):
            faults.add("", "passes", "there is no such pass", meant(str(each), PASSES), value=each)
    return frozenset(each for each in PASSES if each in value)


def _check_whole(
    output: str, holds: Mapping[str, names.Holds], depth: int, world: World, faults: Faults
) -> None:
    if holds[output] in ("vectors", "index"):
        problem = (
            f"it holds {'vectors' if holds[output] == 'vectors' else 'an index'}, which no answer can show"
        )
        faults.add("", "output", problem, "name a step that yields a text or a list", value=output)
    if depth > world.max_depth:
        problem = f"{depth} steps wait for one another"
        faults.add("", "steps", problem, f"write {world.max_depth} at most")


def _version(source: Mapping[str, Any]) -> str:
    canonical = json.dumps(source, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode(), digest_size=8).hexdigest()
