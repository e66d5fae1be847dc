"""A workflow's two graphs as text, side by side: as declared, and as carried out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from workflows.drawing import Drawing, DrawnNode
from workflows.plan import Note

_COLUMN = 58
_MARKS: Mapping[str, str] = {"data": "", "items": "~", "after": "!", "order": ":"}
LEGEND = (
    "< waits for; ~ piece by piece, : for its end only, ! for its good end; [n] the change of this number"
)


def side_by_side(declared: Drawing, carried_out: Drawing, notes: Sequence[Note]) -> Iterator[str]:
    """Lines: both graphs from the top down, a block per layer."""
    marks = _marked(notes)
    left, right = _by_layer(declared, {}), _by_layer(carried_out, marks)
    yield _row("p-graph: as declared", "e-graph: as carried out")
    yield _row("-" * (_COLUMN - 2), "-" * (_COLUMN - 2))
    for layer in range(max(len(left), len(right))):
        here, there = left.get(layer, []), right.get(layer, [])
        for number, (one, other) in enumerate(zip_longest(here, there, fillvalue="")):
            start = f"{layer:>2}  " if number == 0 else "    "
            yield _row(start + one if one else "", start + other if other else "").rstrip()


def _row(left: str, right: str) -> str:
    if len(left) > _COLUMN - 2:
        left = left[: _COLUMN - 3] + "…"
    return f"{left:<{_COLUMN}}{right}".rstrip()


def _marked(notes: Sequence[Note]) -> dict[str, list[int]]:
    """The changes of each node of the graph."""
    marks: dict[str, list[int]] = {}
    for number, note in enumerate(notes, 1):
        for node in note.nodes:
            marks.setdefault(node, []).append(number)
    return marks


def _by_layer(drawing: Drawing, marks: Mapping[str, Sequence[int]]) -> dict[int, list[str]]:
    waits: dict[str, list[str]] = {}
    for edge in drawing.edges:
        waits.setdefault(edge.after, []).append(_MARKS[edge.kind] + edge.before)
    layers: dict[int, list[str]] = {}
    for node in drawing.nodes:
        layers.setdefault(node.layer, []).extend(_node(node, waits.get(node.id, ()), marks))
    return layers


def _node(node: DrawnNode, waits: Sequence[str], marks: Mapping[str, Sequence[int]]) -> Iterator[str]:
    changes = "".join(f" [{number}]" for number in marks.get(node.node, ()))
    yield f"{node.id}  {node.label}{changes}"
    if waits:
        yield f"  < {', '.join(_together(waits))}"


def _together(waits: Sequence[str]) -> Iterator[str]:
    """`index.ingest[0..7]` for the pieces of one step."""
    pieces: dict[str, list[str]] = {}
    for each in waits:
        node, bracket, index = each.rstrip("]").rpartition("[")
        pieces.setdefault(node if bracket else each, []).extend([index] if bracket else [])
    for node, indexes in pieces.items():
        if not indexes:
            yield node
        elif len(indexes) == 1:
            yield f"{node}[{indexes[0]}]"
        else:
            yield f"{node}[{indexes[0]}..{indexes[-1]}]"
