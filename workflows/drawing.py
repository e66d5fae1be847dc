"""A definition's graph drawn out, for `explain` and the admin page: the steps of a run whose lists are so long.

It is unfolded as a run is, so nothing is drawn that would not be done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from workflows.counts import guessed
from workflows.definition import ITEM, Definition
from workflows.graph import Graph, Step
from workflows.names import RunId, StepId
from workflows.plan import StepPlan
from workflows.template import names_in
from workflows.unfolding import Unfolding

MOST_DRAWN = 8
_RUN: RunId = "drawn"
_PIECE = re.compile(r"(.*)\[(\d+)\]")
_WORDS: Mapping[str, str] = {
    "split": "Splitting",
    "embed": "Embedding",
    "ingest": "Ingestion",
    "search": "Searching",
    "rerank": "Reranking",
    "chat": "Chat",
    "tool": "Tool",
    "when": "Condition",
    "gather": "Gathering",
    "first_of": "First of",
    "merge": "Merging",
    "transform": "Transform",
}
EdgeKind = Literal["data", "items", "after", "order"]
"""`data`: a whole value. `items`: a piece of one. `after`: must have ended well, or been skipped.
`order`: must have ended."""


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """One step of the run."""

    id: StepId
    """`found.search[1]`"""
    node: str
    """The same for all pieces: `found.search`."""
    step: str
    primitive: str
    index: int | None
    """Which piece or item, from 0; None for one that has no parts."""
    items: int
    """The number of items it works on."""
    layer: int
    """Steps on the longest way to it: 0 for one that waits for none."""
    label: str
    """For people: `Embedding 17-32`, `Chat: {{question}}`."""


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """The second drawn node waits for the first."""

    before: StepId
    after: StepId
    kind: EdgeKind


@dataclass(frozen=True, slots=True)
class Drawing:
    """Nodes by layer, and the edges between them, without those that others imply."""

    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]


def draw(
    definition: Definition,
    plans: Mapping[str, StepPlan],
    counts: Mapping[str, int] | None = None,
    most: int = MOST_DRAWN,
) -> Drawing:
    """The graph of a run by these plans.

    `counts` are lengths of lists by name; one that is missing is guessed from the definition (`items`, `k`), else 3. Of more
    than `most` pieces (at least 2) only the first ones and the last are drawn.
    """
    lengths = guessed(definition, counts)
    graph = unfolded(definition, plans, lengths)
    shown = _shown(graph, most)
    edges: list[DrawnEdge] = []
    layers: dict[StepId, int] = {}
    items: dict[StepId, int] = {}
    above: dict[StepId, frozenset[StepId]] = {}
    """The drawn steps, by step, of all that it waits for."""
    nearest: dict[StepId, frozenset[StepId]] = {}
    """By step, itself if it is drawn, else the drawn ones just before it."""
    for id in graph.order():
        step, before = graph.steps[id], graph.feeders(id)
        items[id] = _items(step, items, lengths)
        through = frozenset[StepId]().union(*(above[each] for each in before))
        direct = frozenset[StepId]().union(*(nearest[each] for each in before))
        waits = sorted(each for each in direct if not any(each in above[other] for other in direct))
        above[id], nearest[id] = through | direct, direct
        if id in shown:
            nearest[id] = frozenset((id,))
            layers[id] = max((layers[each] + 1 for each in waits), default=0)
            edges += [DrawnEdge(each, id, _kind(graph.steps[each], step)) for each in waits]
    nodes = [_node(graph.steps[id], layers[id], items[id]) for id in layers]
    return Drawing(tuple(sorted(nodes, key=lambda node: node.layer)), tuple(edges))


def unfolded(definition: Definition, plans: Mapping[str, StepPlan], lengths: Mapping[str, int]) -> Graph:
    """The graph of a run whose lists have these lengths."""
    lists = {name: [""] * length for name, length in lengths.items()}
    inputs = {name: lists[name] for name, spec in definition.inputs.items() if spec.kind == "texts"}
    unfolding = Unfolding(_RUN, definition, plans, inputs, max_items=max(lengths.values(), default=1))
    added = unfolding.begin()
    for name in definition.order():
        for index in range(lengths[name]):
            added.take(unfolding.item(name, index, ""))
        added.take(unfolding.ready(unfolding.variable(name), lists[name]))
    return added.graph()


def _shown(graph: Graph, most: int) -> frozenset[StepId]:
    """Steps that are drawn: of many pieces the first ones and the last."""
    pieces: dict[str, list[StepId]] = {}
    for step in graph.steps:
        pieces.setdefault(_parts(step)[0] if _PIECE.fullmatch(step) else f"{step}[]", []).append(step)
    few = (each if len(each) <= most else [*each[: most - 1], each[-1]] for each in pieces.values())
    return frozenset(step for each in few for step in each)


def _parts(id: StepId) -> tuple[str, int | None]:
    """(what all pieces are called, which this is)."""
    found = _PIECE.fullmatch(id)
    return (id, None) if found is None else (found[1], int(found[2]))


def _items(step: Step, known: Mapping[StepId, int], lengths: Mapping[str, int]) -> int:
    """Estimate the number of items that a step works on."""
    cut = step.what.get("slice")
    if cut is not None:
        return int(cut[1] - cut[0])
    if ITEM in step.given:
        return 1
    names = step.what.get("texts") or filter(None, [step.what.get("vectors")])
    return max(sum(known[name] if "[" in name else lengths.get(name, 1) for name in names), 1)


def _kind(before: Step, after: Step) -> EdgeKind:
    (written,) = before.writes.values()
    if after.early == before.id:
        return "items"
    if written in after.reads.values():
        apart = before.of != after.of and _PIECE.fullmatch(before.id) and _PIECE.fullmatch(after.id)
        return "items" if apart else "data"
    if written in after.waits:
        return "order"
    # An item of a list waits for its list.
    return "after" if written in after.after and ITEM not in after.given else "data"


def _node(step: Step, layer: int, items: int) -> DrawnNode:
    node, index = _parts(step.id)
    label = _WORDS[step.primitive]
    cut = step.what.get("slice")
    if cut is not None and items > 1:
        label += f" {cut[0] + 1}-{cut[1]}"
    elif index is not None:
        label += f" {index + 1}"
    if step.primitive == "chat":
        named = ", ".join(f"{{{{{name}}}}}" for name in names_in(step.chat["messages"]))
        label += f": {named}" if named else ""
    return DrawnNode(step.id, node, step.of, step.primitive, index, items, layer, label)
