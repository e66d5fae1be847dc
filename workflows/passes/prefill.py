"""Pass 3: where a part of a prompt is known early, that prefix is computed early.

A prefix is worth a request of its own where the name just behind it is known later than everything within it. How much later
is not known before the run, nor how long the prefix is: the run decides again when the values are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from workflows.definition import ITEM, SO_FAR, StepSpec
from workflows.passes.seen import Changed, Seen
from workflows.plan import Note, Warm
from workflows.primitives import Edge, Node, PrimitiveGraph
from workflows.template import slots_in

Messages = Sequence[Mapping[str, Any]]


def prefill(graph: PrimitiveGraph, seen: Seen) -> Changed | None:
    """The graph with prefillings in two parts where the first may be computed early; None where nothing changes."""
    before, notes = graph, []
    levels = _levels(graph, seen)
    for step in seen.definition.steps.values():
        if not step.messages or not _wanted(step, seen):
            continue
        node = graph.nodes[f"{step.name}.prefill"]
        warms = _warms(step, levels) if node.primitive == "prefill" else ()
        if warms:
            partials = [_partial(node, step, warm, place) for place, warm in enumerate(warms)]
            graph = _split(graph, node, step, partials)
            notes += [_note(node, each, warm) for each, warm in zip(partials, warms, strict=True)]
    return None if graph is before else Changed(graph, tuple(notes))


def cut(messages: Messages, boundary: tuple[int, int]) -> tuple[Mapping[str, Any], ...]:
    """The messages of a template up to a boundary: those before it, and the text before it of the one it is in.

    What is left is a template that `workflows.template.fill` takes. A message whose text would be empty is left out.
    """
    index, offset = boundary
    whole = tuple(messages[:index])
    if not offset:
        return whole
    message = messages[index]
    content = message.get("content")
    if isinstance(content, str):
        return (*whole, {**message, "content": content[:offset]})
    return (*whole, {**message, "content": _parts_before(content or (), offset)})


def _parts_before(parts: Iterable[Mapping[str, Any]], offset: int) -> list[Mapping[str, Any]]:
    """The parts of a content up to an offset in its texts, which a newline joins."""
    kept: list[Mapping[str, Any]] = []
    for part in parts:
        text = part.get("text") if part.get("type") == "text" else None
        if not isinstance(text, str):
            kept.append(part)
            continue
        if len(text) >= offset:
            return [*kept, {**part, "text": text[:offset]}] if offset else kept
        kept.append(part)
        offset -= len(text) + 1
    return kept


# ---- where


def _wanted(step: StepSpec, seen: Seen) -> bool:
    """Only where it is certain who answers, and never where each token is charged for."""
    profile = seen.profile
    return step.warm is not False and profile.certain_engine(step.model) and not profile.hosted(step.model)


def _levels(graph: PrimitiveGraph, seen: Seen) -> dict[str, int]:
    """How late each name is known: 0 for an input, else the primitives on the longest way to the step's value."""
    layers: dict[str, int] = {}
    for id_ in graph.order():
        layers[id_] = 1 + max((layers[edge.before] for edge in graph.into[id_]), default=0)
    return {
        **dict.fromkeys(seen.definition.inputs, 0),
        **{step: layers[tail] for step, tail in graph.tails.items()},
    }


def _warms(step: StepSpec, levels: Mapping[str, int]) -> tuple[Warm, ...]:
    # Of a branch that may not be taken, nothing is computed before it is known to be.
    begun = 0 if step.condition is None else levels[step.condition[0]]
    if step.kind == "chat":
        return _of_prompt(step.name, "first", step.messages, levels, begun)
    over = levels[step.over[0]]
    if step.kind == "map":
        return _of_prompt(step.name, "each", step.messages, {**levels, ITEM: over}, begun)
    # A fold. The first answer is known after the last of what its prompts read.
    first = _of_prompt(
        step.name, "first", step.first or step.messages, {**levels, ITEM: over, SO_FAR: 0}, begun
    )
    late = 1 + max((levels[name] for name in step.needs), default=0)
    each = _of_prompt(step.name, "each", step.messages, {**levels, ITEM: over, SO_FAR: late}, begun)
    if not step.first:
        # The run finds a prefix that two prompts share in the cache; one of its own is worth more.
        known = {(warm.boundary, warm.needs) for warm in first}
        each = tuple(warm for warm in each if (warm.boundary, warm.needs) not in known) or each
    return (*first, *each)


def _of_prompt(
    step: str, part: Literal["first", "each"], messages: Messages, levels: Mapping[str, int], begun: int
) -> tuple[Warm, ...]:
    """The earliest and the latest prefix behind which a name stands that is known later than `begun` and all within."""
    slots = slots_in(messages)
    found: list[Warm] = []
    latest = begun
    for place, (message, offset, name) in enumerate(slots):
        if levels[name] > latest:
            latest = levels[name]
            needs = tuple(dict.fromkeys(each for _, _, each in slots[:place]))
            waits = tuple(dict.fromkeys(each for _, _, each in slots[place:] if each not in needs))
            if (message, offset) != (0, 0):
                found.append(Warm(step, part, (message, offset), needs, waits))
    return tuple(found[:1] + found[1:][-1:])


# ---- the graph


def _split(graph: PrimitiveGraph, node: Node, step: StepSpec, partials: Sequence[Node]) -> PrimitiveGraph:
    late = () if partials[-1].warm is None else partials[-1].warm.waits
    full = replace(node, primitive="full_prefill", prompt=late)
    added = []
    for partial in partials:
        added.append(Edge(partial.id, node.id, "data"))
        names = [step.over[0] if name == ITEM else name for name in partial.prompt if name != SO_FAR]
        names += [] if step.condition is None else [step.condition[0]]
        added += [Edge(graph.tails[name], partial.id, "data") for name in names if name in graph.tails]
    return graph.changed(put=(*partials, full), added=added)


def _partial(node: Node, step: StepSpec, warm: Warm, place: int) -> Node:
    """A shared prefix of a `map` is computed once; of a fold, with each prompt."""
    once = step.kind == "chat" or (step.kind == "map" and ITEM not in warm.needs)
    return replace(
        node,
        id=f"{step.name}.partial{place + 1 if place else ''}",
        primitive="partial_prefill",
        per="step" if once else "item",
        apart=not once,
        list="" if once else node.list,
        warm=warm,
        prompt=warm.needs,
    )


def _note(node: Node, partial: Node, warm: Warm) -> Note:
    whose = " of each item" if warm.part == "each" else ""
    known = " and ".join(f"{{{{{name}}}}}" for name in warm.needs)
    when = f"as soon as {known} {'are' if len(warm.needs) > 1 else 'is'} known" if known else "at once"
    what = f"{node.step}: the prompt{whose} up to {{{{{warm.waits[0]}}}}} is computed {when}"
    return Note("prefill", node.step, what, nodes=(partial.id, node.id))
