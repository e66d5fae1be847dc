"""A graph of primitives with its items drawn out: for `explain`, the admin page, and to compare with a chain of modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workflows.definition import Definition
from workflows.primitives import EdgeKind, Primitive, PrimitiveGraph


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
    """For people: "Embedding 17-32", "Partial prefilling: question"."""


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
    definition: Definition, graph: PrimitiveGraph, counts: Mapping[str, int] | None = None, most: int = 8
) -> Drawing:
    """The nodes of a graph drawn out into pieces and items.

    `counts` are lengths of lists by name; one that is missing is guessed from the definition (`items`, `k`), else 3. Of more
    than `most` pieces only the first ones and the last are drawn.
    """
    raise NotImplementedError
