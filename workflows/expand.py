"""A graph of primitives with its items drawn out: for `explain`, the admin page, and to compare with a chain of modules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from workflows.counts import guessed
from workflows.definition import Definition
from workflows.plan import piece_items
from workflows.primitives import Edge, EdgeKind, Node, Primitive, PrimitiveGraph

MOST_DRAWN = 8
_WORDS: Mapping[Primitive, str] = {
    "split": "Splitting",
    "embed": "Embedding",
    "ingest": "Ingestion",
    "search": "Searching",
    "rerank": "Reranking",
    "prefill": "Prefilling",
    "decode": "Decoding",
    "partial_decode": "Partial decoding",
    "tool": "Tool",
    "condition": "Condition",
    "aggregate": "Aggregate",
    "transform": "Transform",
}


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """One primitive on one piece."""

    id: str
    """`found.search[1]`"""
    node: str
    """The id of its node in the graph of primitives: `found.search`."""
    step: str
    primitive: Primitive
    index: int | None
    """Which piece or item, from 0; None for one that has no parts."""
    items: int
    """How many items it works on."""
    layer: int
    """Primitives on the longest way to it: 0 for one that waits for none."""
    label: str
    """For people: `Embedding 17-32`, `Prefilling: {{question}}`."""


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """The second drawn node waits for the first."""

    before: str
    after: str
    kind: EdgeKind


@dataclass(frozen=True, slots=True)
class Drawing:
    """Nodes by layer, and the edges between them, without those that others imply."""

    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]


def expand(
    definition: Definition,
    graph: PrimitiveGraph,
    counts: Mapping[str, int] | None = None,
    most: int = MOST_DRAWN,
) -> Drawing:
    """The nodes of a graph drawn out into pieces and items.

    `counts` are lengths of lists by name; one that is missing is guessed from the definition (`items`, `k`), else 3. Of more
    than `most` pieces (at least 2) only the first ones and the last are drawn.
    """
    lengths = guessed(definition, counts)
    order = graph.order()
    pieces: dict[str, _Pieces] = {}
    for id_ in order:
        pieces[id_] = _pieces(graph, graph.nodes[id_], lengths, pieces, most)
    edges: dict[tuple[str, str], EdgeKind] = {}
    for edge in graph.edges:
        for before, after in _joined(graph, edge, pieces):
            edges.setdefault((f"{edge.before}{before}", f"{edge.after}{after}"), edge.kind)
    for id_ in order:
        edges |= dict.fromkeys(_turns(graph, graph.nodes[id_], pieces), "data")
    ids = [f"{id_}{_suffix(pieces[id_], index)}" for id_ in order for index in pieces[id_].shown]
    kept, layers = _reduced(ids, edges)
    nodes = [
        _drawn(graph, graph.nodes[id_], pieces[id_], index, layers)
        for id_ in order
        for index in pieces[id_].shown
    ]
    nodes.sort(key=lambda node: node.layer)
    return Drawing(tuple(nodes), tuple(DrawnEdge(*ends, edges[ends]) for ends in kept))


# ---- pieces


@dataclass(frozen=True, slots=True)
class _Pieces:
    """How often a node is drawn."""

    count: int
    items: int
    """In all of them."""
    shown: tuple[int, ...]
    single: bool
    """Whether it has no parts at all."""


def _pieces(
    graph: PrimitiveGraph, node: Node, lengths: Mapping[str, int], known: Mapping[str, _Pieces], most: int
) -> _Pieces:
    items = max(1, lengths.get(node.list, 1))
    if node.per == "step":
        return _Pieces(1, 1, (0,), single=True)
    source = next((edge.before for edge in graph.into[node.id] if edge.kind == "items"), None)
    single = False
    if node.per == "turn" or node.apart:
        count = items
    elif source is not None and known[source].count > 1 and not (node.stage and graph.nodes[source].apart):
        count = known[source].count
    elif node.stage is not None:
        count = -(-items // piece_items(node.stage, items))
    else:
        count, single = 1, True
    shown = tuple(range(count)) if count <= most else (*range(most - 1), count - 1)
    return _Pieces(count, items, shown, single)


def _suffix(pieces: _Pieces, index: int) -> str:
    return "" if pieces.single else f"[{index}]"


def _drawn(
    graph: PrimitiveGraph, node: Node, pieces: _Pieces, index: int, layers: Mapping[str, int]
) -> DrawnNode:
    first, last = index * pieces.items // pieces.count, (index + 1) * pieces.items // pieces.count
    if node.stage is not None:
        size = piece_items(node.stage, pieces.items)
        first, last = index * size, min((index + 1) * size, pieces.items)
    id_ = f"{node.id}{_suffix(pieces, index)}"
    place = None if pieces.single else index
    label = _label(node, pieces, first, last, node.prompt)
    return DrawnNode(id_, node.id, node.step, node.primitive, place, max(last - first, 1), layers[id_], label)


def _label(node: Node, pieces: _Pieces, first: int, last: int, prompt: tuple[str, ...]) -> str:
    label = _WORDS[node.primitive]
    if not pieces.single:
        label += f" {first + 1}" if last - first <= 1 else f" {first + 1}-{last}"
    elif pieces.items > 1:
        label += f" of {pieces.items}"
    named = ", ".join(f"{{{{{name}}}}}" for name in prompt)
    return f"{label}: {named}" if named else label


# ---- edges


def _joined(graph: PrimitiveGraph, edge: Edge, pieces: Mapping[str, _Pieces]) -> Iterable[tuple[str, str]]:
    """Which pieces of one node wait for which of another."""
    before, after = graph.nodes[edge.before], graph.nodes[edge.after]
    ours, theirs = pieces[before.id], pieces[after.id]
    turns = after.per == "turn"
    for index in theirs.shown:
        if edge.kind == "items" and before.apart and after.stage is not None:
            size = piece_items(after.stage, ours.count)
            wanted: Sequence[int] = range(index * size, (index + 1) * size)
        elif edge.kind == "items" or (before.step == after.step and turns and not ours.single):
            wanted = (index * ours.count // theirs.count,)
        elif turns and index:
            continue  # Each turn waits for the one before it.
        else:
            wanted = ours.shown[-1:] if before.per == "turn" else ours.shown
        for each in wanted:
            if each in ours.shown:
                yield _suffix(ours, each), _suffix(theirs, index)


def _turns(graph: PrimitiveGraph, node: Node, pieces: Mapping[str, _Pieces]) -> Iterable[tuple[str, str]]:
    """Each turn waits for the one before: its first primitive for the last one's."""
    if node.per != "turn" or node.primitive not in ("decode", "partial_decode"):
        return
    head = graph.heads[node.step] if node.primitive == "decode" else node.id
    shown = pieces[node.id].shown
    for before, after in pairwise(shown):
        yield f"{node.id}[{before}]", f"{head}[{after}]"


def _reduced(
    ids: Iterable[str], edges: Mapping[tuple[str, str], EdgeKind]
) -> tuple[list[tuple[str, str]], Mapping[str, int]]:
    """(the edges that no others imply, the layer of each node)."""
    into: dict[str, list[str]] = {id_: [] for id_ in ids}
    out_of: dict[str, list[str]] = {id_: [] for id_ in into}
    for before, after in edges:
        into[after].append(before)
        out_of[before].append(after)
    missing = {id_: len(before) for id_, before in into.items()}
    order = [id_ for id_, count in missing.items() if not count]
    above: dict[str, int] = {}
    bits: dict[str, int] = {}
    layers: dict[str, int] = {}
    kept = []
    for place, id_ in enumerate(order):
        bits[id_] = 1 << place
        through = 0
        for before in into[id_]:
            through |= above[before]
        kept += [(before, id_) for before in into[id_] if not through & bits[before]]
        above[id_] = through
        for before in into[id_]:
            above[id_] |= bits[before]
        layers[id_] = max((layers[before] + 1 for before in into[id_]), default=0)
        for after in out_of[id_]:
            missing[after] -= 1
            if not missing[after]:
                order.append(after)
    return kept, layers
