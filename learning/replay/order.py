"""In which order a run takes its steps: as planned, and then by what came of those nearby.

Whether an answer was bettered says something of answers to the like of its question: they come from the same engine, on the
same day, about the same thing. So a step's outcome moves the chance of those that are near it and not done yet, up or down,
and the best of what is left comes next. What is known of a run's outcomes stands in the store, so one that goes on after a
kill goes on in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from learning.replay.plan import chance_of_better
from router.examples.lexical_things import Things, about_other_things, things
from store import Store
from store.jobs.replay_records import ReplayStep

_NEAR = 0.75
"""Cosine from which a question is of the like of another, if they name the same things."""
_NEIGHBOURS = 32
_BETTERED = {"replaced": 0.0, "kept": 1.0, "agreed": 1.0}
"""What came of distilling an answer, as a quality that this says it had."""


class Order:
    """Of one run. Blocks where it reads: for a thread."""

    def __init__(self, store: Store, steps: Iterable[ReplayStep]) -> None:
        """`steps`: all of the run, done or not."""
        self._store = store
        self._left: dict[int, ReplayStep] = {}
        self._seen: dict[int, tuple[float, int]] = {}
        """Step id to (sum, count) of what outcomes nearby say of its answer's quality."""
        self._by_example: dict[int, ReplayStep] = {}
        self._things: dict[int, Things] = {}
        done = []
        for step in steps:
            if step.state in ("done", "skipped"):
                done.append(step)
                continue
            self._left[step.id] = step
            if step.plan.kind == "distil":
                self._by_example[step.plan.example_id] = step
        for step in done:
            self.came_of(step, step.result)

    def __len__(self) -> int:
        return len(self._left)

    def take(self) -> ReplayStep | None:
        """The best of what is left; None where nothing is."""
        if not self._left:
            return None
        best = max(self._left.values(), key=lambda step: (self._worth(step), -step.position))
        return self._left.pop(best.id)

    def came_of(self, step: ReplayStep, result: str) -> None:
        """Note what came of a step; moves those near it."""
        quality = _BETTERED.get(result)
        if quality is None or step.plan.kind != "distil":
            return
        for id in self._near(step):
            near = self._by_example.get(id)
            if near is not None and near.id in self._left and near.plan.tenant == step.plan.tenant:
                total, count = self._seen.get(near.id, (0.0, 0))
                self._seen[near.id] = (total + quality, count + 1)

    def _worth(self, step: ReplayStep) -> float:
        plan = step.plan
        cost = plan.expected_usd or plan.expected_tokens or 1.0
        if step.id not in self._seen or plan.gain <= 0:
            return plan.expected_effect / cost
        before = plan.expected_effect / plan.gain
        total, count = self._seen[step.id]
        return plan.gain * chance_of_better(before, total, count, weight=0.5) / cost

    def _near(self, step: ReplayStep) -> Sequence[int]:
        """Examples that ask the like of what a step's example asks."""
        indexes = self._store.indexes
        tenant, id = step.plan.tenant, step.plan.example_id
        if indexes is None:
            return ()
        vector = self._store.examples.vectors_of(tenant, [id], indexes.version).get(id)
        own = self._named(tenant, [id]).get(id)
        if vector is None or own is None:
            return ()
        found = indexes.nearest(tenant, vector, _NEIGHBOURS)
        near = [other for other, similarity in found if similarity >= _NEAR and other != id]
        named = self._named(tenant, [other for other in near if other in self._by_example])
        return [other for other, theirs in named.items() if not about_other_things(own, theirs)]

    def _named(self, tenant: str, ids: Sequence[int]) -> dict[int, Things]:
        missing = [id for id in ids if id not in self._things]
        for example in self._store.examples.by_ids(tenant, missing, serving=False):
            self._things[example.id] = things(example.question)
        return {id: self._things[id] for id in ids if id in self._things}
