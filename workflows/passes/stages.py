"""Pass 2: a batchable primitive with more items than its component's effective batch is cut into pieces that flow on."""

from __future__ import annotations

from dataclasses import replace

from workflows.passes.flowing import flowed, in_pieces
from workflows.passes.seen import Changed, Seen
from workflows.plan import Note
from workflows.primitives import Node, PrimitiveGraph


def stages(graph: PrimitiveGraph, seen: Seen) -> Changed | None:
    """The graph with lists cut, and pieces flowing as far as they may; None where nothing changes."""
    before, notes = graph, []

    def batch(node: Node) -> int | None:
        return _batch(node, seen)

    for id_ in before.order():
        node = graph.nodes[id_]
        if node.per != "item" or node.early:
            continue
        if not in_pieces(graph, node):
            size = batch(node)
            if size is None:
                continue
            node = replace(node, stage=size)
            graph = graph.changed(put=(node,))
            what = f"{id_} goes in pieces of {size}, the effective batch of {node.engine}"
            notes.append(Note("stages", node.step, what, nodes=(id_,)))
        graph, found = flowed(graph, node, seen.definition, "stages", batch)
        notes += found
    return None if graph is before else Changed(graph, tuple(notes))


def _batch(node: Node, seen: Seen) -> int | None:
    """Into pieces of how many items a node's list is cut; None where it is not."""
    batch = seen.profile.effective_batch.get(node.engine)
    count = seen.counts.get(node.list)
    return None if batch is None or (count is not None and count <= batch) else batch
