"""Which texts a component is asked for next: Algorithm 2 of Teola (Tan et al. 2024, section 5.2). Pure: no clock, no task.

What waits of one run is a bucket. Buckets go by the earliest arrival of what is in them; of each, what is deepest (farthest
from the run's output) is taken first. Slots that are left over go to the next depth. What has waited long goes before all.
Beyond the paper: when all that is left of a run is few items, they go along with its deepest ones. A question that is
embedded beside a document's chunks would else wait for a whole request of another run's chunks, to save that run one place.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

PROMOTED_S = 10.0
"""Who has waited so long goes before all others: a run whose deep steps keep coming must not starve its shallow ones."""

FEW = 8
"""The items left of a run are few where they are at most this part (an eighth) of the slots."""

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Node(Generic[T]):
    """What one step, or one piece of it, asks of a component: `items` things, of which some may have been taken."""

    run: str
    depth: int
    arrived_s: float
    items: int
    what: T
    taken: int = 0

    @property
    def left(self) -> int:
        """How many of its items still wait."""
        return self.items - self.taken


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """Items `start` to `start + count` of a node, taken together."""

    node: Node[T]
    start: int
    count: int


_Queue = list[tuple[float, int, Node[T]]]
"""Of one run and one depth, by arrival."""


class DepthLine(Generic[T]):
    """Nodes that wait, by run and depth."""

    def __init__(self, promoted_s: float = PROMOTED_S) -> None:
        self._promoted_s = promoted_s
        self._runs: dict[str, dict[int, _Queue[T]]] = {}
        self._order = count()
        self._nodes = 0
        self._items = 0

    def __len__(self) -> int:
        """How many nodes wait, or wait for the rest of their items to be taken."""
        return self._nodes

    @property
    def items(self) -> int:
        """How many items wait."""
        return self._items

    def put(self, node: Node[T]) -> None:
        """A node with at least one item waits from now on."""
        queue = self._runs.setdefault(node.run, {}).setdefault(node.depth, [])
        insort(queue, (node.arrived_s, next(self._order), node))
        self._nodes += 1
        self._items += node.left

    def remove(self, node: Node[T]) -> bool:
        """Take a node out; False where it does not wait. The items that were taken stay taken."""
        for entry in self._runs.get(node.run, {}).get(node.depth, ()):
            if entry[2] is node:
                self._forget(entry)
                self._items -= node.left
                return True
        return False

    def take(self, slots: int, now_s: float) -> list[Part[T]]:
        """Up to `slots` items, in the order in which they are to be asked for. `now_s`: on the clock of `arrived_s`."""
        parts: list[Part[T]] = []
        few = slots // FEW
        slots -= self._take_overdue(slots, now_s, parts)
        passed: dict[str, int] = {}
        while slots > 0 and (round_ := self._next_depths(passed)):
            for run, depth in round_:
                slots -= self._take_of(self._runs.get(run, {}).get(depth, []), slots, parts)
                slots -= self._take_rest(run, min(few, slots), parts)
                passed[run] = depth
                if slots <= 0:
                    break
        return parts

    def _take_overdue(self, slots: int, now_s: float, parts: list[Part[T]]) -> int:
        taken = 0
        while taken < slots and (first := min(self._heads(), default=None)) is not None:
            if now_s - first[0] < self._promoted_s:
                break
            taken += self._cut(first, slots - taken, parts)
        return taken

    def _next_depths(self, passed: dict[str, int]) -> list[tuple[str, int]]:
        """Each run with the deepest of its depths that had no turn yet, by the earliest arrival of the run."""
        found = []
        for run, depths in self._runs.items():
            earliest = min(queue[0] for queue in depths.values())[:2]
            below = [depth for depth in depths if depth < passed.get(run, depth + 1)]
            if below:
                found.append((earliest, run, max(below)))
        return [(run, depth) for _, run, depth in sorted(found)]

    def _take_of(self, queue: _Queue[T], slots: int, parts: list[Part[T]]) -> int:
        taken = 0
        while queue and taken < slots:
            taken += self._cut(queue[0], slots - taken, parts)
        return taken

    def _take_rest(self, run: str, most: int, parts: list[Part[T]]) -> int:
        """All that is left of a run, where that is not more than this."""
        depths = self._runs.get(run, {})
        if sum(node.left for queue in depths.values() for _, _, node in queue) > most:
            return 0
        queues = [depths[depth] for depth in sorted(depths, reverse=True)]
        return sum(self._take_of(queue, most, parts) for queue in queues)

    def _cut(self, entry: tuple[float, int, Node[T]], slots: int, parts: list[Part[T]]) -> int:
        node = entry[2]
        many = min(slots, node.left)
        parts.append(Part(node, node.taken, many))
        node.taken += many
        self._items -= many
        if node.left == 0:
            self._forget(entry)
        return many

    def _forget(self, entry: tuple[float, int, Node[T]]) -> None:
        node = entry[2]
        depths = self._runs[node.run]
        queue = depths[node.depth]
        queue.remove(entry)
        self._nodes -= 1
        if not queue:
            del depths[node.depth]
            if not depths:
                del self._runs[node.run]

    def _heads(self) -> Iterator[tuple[float, int, Node[T]]]:
        for depths in self._runs.values():
            for queue in depths.values():
                yield queue[0]
