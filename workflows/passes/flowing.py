"""Pieces of a list that flow on by themselves: which step takes them from which, and what joins them again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from workflows.definition import Definition
from workflows.plan import Note
from workflows.primitives import Edge, Node, PrimitiveGraph


def in_pieces(graph: PrimitiveGraph, node: Node) -> bool:
    """Whether a node runs on pieces of its list, each on its own."""
    if node.apart or node.early or node.stage is not None:
        return True
    return any(edge.kind == "items" for edge in graph.into[node.id])


def gathered(graph: PrimitiveGraph, step: str) -> PrimitiveGraph:
    """The graph in which a node joins the pieces of a step, in order: whoever reads the whole value reads it there."""
    tail = graph.nodes[graph.tails[step]]
    if tail.primitive == "aggregate":
        return graph
    join = Node(step, step, "aggregate")
    moved = {
        edge
        for edge in graph.out_of[tail.id]
        if graph.nodes[edge.after].step != step and edge.kind != "items"
    }
    added = [
        Edge(tail.id, join.id, "data"),
        *(edge._replace(before=join.id) for edge in graph.edges if edge in moved),
    ]
    if tail.list in graph.tails and tail.list != step:
        added.append(Edge(graph.tails[tail.list], join.id, "data"))
    return graph.changed(put=(join,), dropped=moved, added=added, tails={step: join.id})


Batch = Callable[[Node], int | None]
"""Into pieces of how many items a node's list is cut; None where it is not."""


def flowed(
    graph: PrimitiveGraph, source: Node, definition: Definition, by: str, batch: Batch = lambda node: None
) -> tuple[PrimitiveGraph, list[Note]]:
    """The graph in which the pieces of a node flow on, within its step and beyond, and a note on each step that takes them.

    Pieces of items that are handed on while a chat goes on are early wherever they come. Items of a `map` are gathered in
    pieces of a `batch`, but where each goes on its own anyway.
    """
    notes: list[Note] = []
    for edge in graph.out_of[source.id]:
        taker = graph.nodes[edge.after]
        if taker.per == "item" and (edge.kind == "items" or taker.step == source.step):
            graph = _within(graph, edge, early=source.early)
    if graph.tails[source.step] == source.id or _joined(graph, source):
        graph = gathered(graph, source.step)
        graph, notes = _onward(graph, source, definition, by, batch)
    return graph, notes


def _joined(graph: PrimitiveGraph, source: Node) -> bool:
    """Whether a node is the last one before its step's pieces are joined."""
    tail = graph.tails[source.step]
    return any(edge.after == tail for edge in graph.out_of[source.id])


def _within(graph: PrimitiveGraph, edge: Edge, *, early: bool) -> PrimitiveGraph:
    """Pieces go from one primitive to the next."""
    taker = graph.nodes[edge.after]
    if edge.kind == "items" and taker.early is early:
        return graph
    put = replace(taker, early=early, stage=None if early else taker.stage)
    if edge.kind == "items":
        return graph.changed(put=(put,))
    return graph.changed(put=(put,), dropped={edge}, added=(edge._replace(kind="items"),))


def _onward(
    graph: PrimitiveGraph, source: Node, definition: Definition, by: str, batch: Batch
) -> tuple[PrimitiveGraph, list[Note]]:
    """Pieces go from a step to those after it that may take them."""
    notes = []
    for edge in graph.out_of[graph.tails[source.step]]:
        taker = graph.nodes[edge.after]
        if edge.kind != "data" or not takes(taker, source, definition):
            continue
        taker = replace(taker, stage=None if source.early or taker.apart else batch(taker))
        if source.apart and not source.early and not taker.apart and taker.stage is None:
            continue  # A batch of how many is not known: one of all.
        graph = handed_on(graph, source, taker, early=source.early)
        what = f"{taker.id} takes each piece of {source.step} as it is there"
        notes.append(Note(by, taker.step, what, (source.id, taker.id), (taker.id,)))
    return graph, notes


def takes(taker: Node, source: Node, definition: Definition) -> bool:
    """Whether a node may work on pieces of another's list before the list is whole.

    A tool that changes something never does. Hits are one list without duplicates only when all are there: of pieces of
    them only scores are made, and the best are taken at the end; so nothing works on pieces of the best, either.
    """
    if taker.per != "item" or taker.list != source.step:
        return False
    spec = definition.steps[taker.step]
    if spec.tool and spec.effects:
        return False
    if source.primitive == "search":
        return taker.primitive == "rerank"
    if source.primitive == "embed":
        return taker.primitive == "ingest"
    return source.primitive in ("decode", "partial_decode", "tool")


def handed_on(graph: PrimitiveGraph, source: Node, taker: Node, *, early: bool) -> PrimitiveGraph:
    """The graph in which a node takes pieces from another; who joins its own also reads the whole list."""
    whole = Edge(graph.tails[source.step], taker.id, "data")
    graph = graph.changed(
        put=(replace(taker, early=early, stage=None if early else taker.stage),),
        dropped={whole},
        added=(Edge(source.id, taker.id, "items"),),
    )
    graph = gathered(graph, taker.step) if graph.tails[taker.step] == taker.id else graph
    join = graph.nodes[graph.tails[taker.step]]
    if join.primitive == "aggregate":
        graph = graph.changed(added=(Edge(graph.tails[source.step], join.id, "data"),))
    return graph
