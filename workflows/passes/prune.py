"""Pass 1: an edge that carries no data, no `after` and no side effect goes."""

from __future__ import annotations

from workflows.passes.seen import Changed, Seen
from workflows.plan import Note
from workflows.primitives import Edge, PrimitiveGraph


def prune(graph: PrimitiveGraph, seen: Seen) -> Changed | None:
    """The graph without edges of order; None where there are none."""
    dropped = frozenset(edge for edge in graph.edges if edge.kind == "order")
    if not dropped:
        return None
    notes = tuple(_note(graph, edge) for edge in graph.edges if edge in dropped)
    return Changed(graph.changed(dropped=dropped), notes)


def _note(graph: PrimitiveGraph, edge: Edge) -> Note:
    before, after = graph.nodes[edge.before], graph.nodes[edge.after]
    what = f"{after.id} no longer waits for {before.step}: it reads nothing of it"
    return Note("prune", after.step, what, (edge.before, edge.after))
