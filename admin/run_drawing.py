"""Places the steps of a run on a plane: a layer for each depth, from left to right, ordered so that few edges cross.

Sugiyama's method without its dummy nodes: layers by longest path, then sweeps by barycentre (Sugiyama, Tagawa, Toda 1981).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

NODE_WIDTH, NODE_HEIGHT = 132, 34
"""Pixels."""
_GAP_X, _GAP_Y, _MARGIN = 44, 12, 8
_SWEEPS = 4


@dataclass(frozen=True, slots=True)
class Drawing:
    """Pixels from the upper left corner."""

    width: int
    height: int
    nodes: Mapping[str, tuple[int, int]]
    """Upper left corner of each step's box."""
    edges: Sequence[tuple[str, str, str]]
    """(from, to, path as in SVG's `d`)."""


def drawn(
    before: Mapping[str, AbstractSet[str]],
    depth: Mapping[str, int],
    *,
    node_width: int = NODE_WIDTH,
    down: bool = False,
) -> Drawing:
    """Place steps. `before`: which steps each reads from; `depth`: steps on the longest way to it.

    Layers follow from left to right, or from the top `down`.
    """
    layers = _layers(before, depth)
    most = max((len(layer) for layer in layers), default=0)
    size = (NODE_HEIGHT, node_width) if down else (node_width, NODE_HEIGHT)
    # Along the layers, and across within one.
    along, across = size[0] + _GAP_X, size[1] + _GAP_Y
    nodes: dict[str, tuple[int, int]] = {}
    for number, layer in enumerate(layers):
        # Each layer is centred on the largest.
        first = _MARGIN + (most - len(layer)) * across // 2
        for place, step in enumerate(layer):
            at = _MARGIN + number * along, first + place * across
            nodes[step] = at[::-1] if down else at
    edges = [
        (one, step, _path(nodes[one], nodes[step], node_width, down=down))
        for step in nodes
        for one in sorted(before.get(step, ()))
    ]
    far = (
        2 * _MARGIN + len(layers) * along - (_GAP_X if layers else 0),
        2 * _MARGIN + most * across - (_GAP_Y if layers else 0),
    )
    return Drawing(*(far[::-1] if down else far), nodes, edges)


def _layers(before: Mapping[str, AbstractSet[str]], depth: Mapping[str, int]) -> list[list[str]]:
    after: defaultdict[str, set[str]] = defaultdict(set)
    for step, sources in before.items():
        for one in sources:
            after[one].add(step)
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for step, number in depth.items():
        layers[number].append(step)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        place: dict[str, float] = {}
        for layer in layers if forward else reversed(layers):
            neighbours = before if forward else after
            _order(layer, neighbours, place)
            # Between 0 and 1: a layer of two is as tall as one of twenty.
            place |= {step: (index + 0.5) / len(layer) for index, step in enumerate(layer)}
    return layers


def _order(layer: list[str], neighbours: Mapping[str, AbstractSet[str]], place: Mapping[str, float]) -> None:
    """Sort a layer by where its neighbours stand; those without any stay about where they are."""

    def barycentre(index: int) -> float:
        near = [place[one] for one in neighbours.get(layer[index], ()) if one in place]
        return sum(near) / len(near) if near else (index + 0.5) / len(layer)

    keys = {step: (barycentre(index), index) for index, step in enumerate(layer)}
    layer.sort(key=keys.__getitem__)


def _path(one: tuple[int, int], other: tuple[int, int], node_width: int, *, down: bool) -> str:
    """From the end of one box to the beginning of the other."""
    if down:
        x1, y1 = one[0] + node_width // 2, one[1] + NODE_HEIGHT
        x2, y2 = other[0] + node_width // 2, other[1]
        middle = (y1 + y2) // 2
        return f"M{x1} {y1}C{x1} {middle} {x2} {middle} {x2} {y2}"
    x1, y1 = one[0] + node_width, one[1] + NODE_HEIGHT // 2
    x2, y2 = other[0], other[1] + NODE_HEIGHT // 2
    middle = (x1 + x2) // 2
    return f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"
