"""Pass 4: a chat whose answer splits hands each item on when its end is seen in the stream."""

from __future__ import annotations

from dataclasses import replace

from workflows.passes.flowing import flowed, handed_on, takes
from workflows.passes.seen import Changed, Seen
from workflows.plan import Note
from workflows.primitives import Edge, Node, PrimitiveGraph


def decoding(graph: PrimitiveGraph, seen: Seen) -> Changed | None:
    """The graph in which splitting chats are decoded item by item, where somebody takes the items; else None."""
    notes: list[Note] = []
    for step in seen.definition.steps.values():
        if step.kind == "chat" and step.splits is not None:
            decode = graph.nodes[f"{step.name}.decode"]
            takers = _takers(graph, decode, seen)
            if takers and decode.primitive == "decode":
                graph = _apart(graph, decode)
                names = []
                for taker in takers:
                    graph = handed_on(graph, graph.nodes[decode.id], graph.nodes[taker], early=True)
                    names.append(taker)
                what = f"{step.name} hands each item on to {', '.join(names)} while it is being written"
                notes.append(Note("decoding", step.name, what, nodes=(decode.id, *names)))
    if not notes:
        return None
    for id_ in graph.order():
        node = graph.nodes[id_]
        if node.early:
            graph, found = flowed(graph, node, seen.definition, "decoding")
            notes += found
    return Changed(graph, tuple(notes))


def _takers(graph: PrimitiveGraph, decode: Node, seen: Seen) -> list[str]:
    edges = graph.out_of[decode.id]
    return [
        edge.after
        for edge in edges
        if edge.kind == "data" and takes(graph.nodes[edge.after], decode, seen.definition)
    ]


def _apart(graph: PrimitiveGraph, decode: Node) -> PrimitiveGraph:
    """One partial decoding per item, each after the one before; the list is whole after the last."""
    partial = replace(decode, primitive="partial_decode", per="turn", list=decode.step)
    join = Node(decode.step, decode.step, "aggregate")
    moved = set(graph.out_of[decode.id])
    added = [
        Edge(decode.id, join.id, "data"),
        *(edge._replace(before=join.id) for edge in graph.edges if edge in moved),
    ]
    return graph.changed(put=(partial, join), dropped=moved, added=added, tails={decode.step: join.id})
