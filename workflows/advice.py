"""What somebody who wrote a workflow could change to make it faster or shorter. Advice only: nothing here changes a run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engines.chat import estimated_tokens
from workflows.definition import ITEM, SO_FAR, Definition, StepSpec
from workflows.template import pieces_of

_LEAST_TOKENS = 16
"""Advice about fewer is not worth a line."""
_LATEST = 10**6
"""When `item` is known; `so_far` is known later still."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to change."""

    step: str
    """Empty where it is of no one step."""
    text: str
    tokens: int = 0
    """How many could be computed before the step can start, about; 0 where it is about something else."""


def advise(definition: Definition, tokens: Mapping[str, int] | None = None) -> tuple[Advice, ...]:
    """All advice about a definition. `tokens`: how long values are, by name, as far as known; others count as nothing."""
    found: list[Advice] = []
    levels = _levels(definition)
    for step in definition.steps.values():
        for place, messages in (("", step.messages), ("first: ", step.first)):
            if messages:
                found += _order_of_prompt(step, place, messages, levels, tokens or {})
        found += _same_for_each(step)
    found += _unused(definition)
    if definition.chained:
        found += _chain(definition)
    return tuple(found)


# ---- prompts


def _levels(definition: Definition) -> dict[str, int]:
    """How late each name is known: 0 for inputs, else steps on the longest way to it, by references alone."""
    levels = dict.fromkeys(definition.inputs, 0) | {ITEM: _LATEST, SO_FAR: _LATEST + 1}

    def level(name: str) -> int:
        if name not in levels:
            levels[name] = 1 + max(map(level, definition.before(name)), default=0)
        return levels[name]

    for name in definition.steps:
        level(name)
    return levels


def _order_of_prompt(
    step: StepSpec,
    place: str,
    messages: Sequence[Mapping[str, object]],
    levels: Mapping[str, int],
    tokens: Mapping[str, int],
) -> Iterator[Advice]:
    """What stands behind a name that is known later, and could stand before it."""
    pieces = [piece for message in messages for piece in pieces_of(message)]
    late, level = "", -1
    for index, (literal, name) in enumerate(pieces):
        if late and len(literal) // 4 >= _LEAST_TOKENS and (not name or levels[name] >= level):
            length = estimated_tokens(literal)
            shown = " ".join(literal.split())[:40]
            text = f"{place}put the text “{shown}…” before {_braced(late)}: {_said(length)}"
            yield Advice(step.name, text, length)
        if not name:
            continue
        if late and levels[name] < level:
            length = estimated_tokens(literal) + tokens.get(name, 0)
            known = tokens.get(name) is not None
            if length >= _LEAST_TOKENS or not known:
                text = f"{place}put {_braced(name)} before {_braced(late)}: {_said(length, known)}"
                yield Advice(step.name, text, length)
        elif levels[name] > level and index < len(pieces):
            late, level = name, levels[name]


def _said(length: int, known: bool = True) -> str:
    if known:
        return f"{length} tokens could be computed early"
    return f"it could be computed early, with {length} tokens of text before it"


def _braced(name: str) -> str:
    return f"{{{{{name}}}}}"


def _same_for_each(step: StepSpec) -> Iterator[Advice]:
    if step.kind not in ("map", "fold"):
        return
    texts = str((step.messages, step.first, step.args))
    if _braced(ITEM) not in texts:
        yield Advice(step.name, f"it says the same for each item: put {_braced(ITEM)} into it, or ask once")


# ---- the whole


def _unused(definition: Definition) -> Iterator[Advice]:
    used = {definition.output}
    for name in definition.steps:
        used.update(definition.before(name), definition.steps[name].needs)
    for name in definition.inputs:
        if name not in used:
            yield Advice("", f"nothing reads the input {_braced(name)}: leave it out")
    for name, step in definition.steps.items():
        keeps = step.effects or step.collection
        if name not in used and not keeps:
            yield Advice(name, "nothing reads it, and it is not the output: leave it out")


def _chain(definition: Definition) -> Iterator[Advice]:
    """Steps of a chain that wait for one they read nothing of."""
    names = list(definition.steps)
    free = [
        after
        for before, after in itertools.pairwise(names)
        if before not in _ancestors(definition, after) and "prune" not in definition.passes
    ]
    if free:
        text = f"{', '.join(free)} could begin earlier: write `steps` instead of `chain`, or allow the pass prune"
        yield Advice("", text)


def _ancestors(definition: Definition, step: str) -> set[str]:
    found: set[str] = set()
    waiting = [step]
    while waiting:
        for name in definition.before(waiting.pop()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found
