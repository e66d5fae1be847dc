"""Deduces how urgent each step of a run is from what was asked for (Parrot, §5.2).

From the latency gets backwards, stage by stage. The producers of all latency gets at one depth are a stage, and so are the
steps that feed a stage. A stage of one step is `latency`; two or more are a task group, whose last member counts and not
each one's latency. A get for the first piece (`ttft`) is read on its own: its producer is a stage of one. What is got for
throughput, and what nobody asked for, is `throughput`. Where a step is in several of these, the strictest holds.

A get of a variable that another run produces is that run's get: whoever waits for it tells that run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import IntEnum

from workflows.criteria import Criteria
from workflows.graph import Graph
from workflows.names import StepId, VariableId


class Rank(IntEnum):
    """A step's class: lower is stricter."""

    LATENCY = 0
    GROUP = 1
    THROUGHPUT = 2


@dataclass(frozen=True, slots=True)
class Objective:
    """The urgency of a step, for the engines' line."""

    rank: Rank
    group: str
    """The task group within the run; "" unless the rank is GROUP."""
    depth: int
    """Stages before it: 0 for a step that waits for no other."""
    work_left: float
    """Tokens expected of the run's unfinished steps of this rank or a stricter one, this step's included."""


class Objectives:
    """The objectives of a run's steps, worked out once, when steps or gets came, and kept right as steps end.

    Making one is linear in the graph's edges, times the latency gets whose ways do not meet; asking and telling are not.
    """

    def __init__(
        self,
        graph: Graph,
        gets: Mapping[VariableId | StepId, Criteria],
        done: AbstractSet[StepId],
        expected: Mapping[StepId, float],
    ) -> None:
        """`gets` has what was asked for, by variable; a call that waits for its own answer may stand there by its step's id.

        `expected` has the tokens expected of a step, prompt and answer; 1 if it is missing. `done` has whatever ended.
        """
        self._graph = graph
        self._ranks = _ranks(graph, gets, done)
        self._left = {step: expected.get(step, 1.0) for step in graph.steps if step not in done}
        self._by_rank = dict.fromkeys(Rank, 0.0)
        for step, tokens in self._left.items():
            self._by_rank[self._rank(step)[0]] += tokens

    def of(self, step: StepId) -> Objective:
        """The objective of a step that has not ended."""
        rank, group = self._rank(step)
        left = sum(self._by_rank[each] for each in Rank if each <= rank)
        return Objective(rank, group, self._graph.depth(step), max(left, 0.0))

    def ended(self, step: StepId) -> None:
        """A step ended, however: what is left is less by its tokens."""
        self._by_rank[self._rank(step)[0]] -= self._left.pop(step, 0.0)

    def _rank(self, step: StepId) -> tuple[Rank, str]:
        return self._ranks.get(step, _UNASKED)


_UNASKED = (Rank.THROUGHPUT, "")


def _ranks(
    graph: Graph, gets: Mapping[VariableId | StepId, Criteria], done: AbstractSet[StepId]
) -> Mapping[StepId, tuple[Rank, str]]:
    """Class and task group of each step that leads to a latency get."""
    ranks: dict[StepId, tuple[Rank, str]] = {}
    seen: set[frozenset[StepId]] = set()
    for first in _got_together(graph, gets, done):
        for stage in _stages(graph, first, done, seen):
            found = (Rank.LATENCY, "") if len(stage) == 1 else (Rank.GROUP, f"{min(stage)}+{len(stage) - 1}")
            for step in stage:
                ranks[step] = min(ranks.get(step, found), found)
    return ranks


def _got_together(
    graph: Graph, gets: Mapping[VariableId | StepId, Criteria], done: AbstractSet[StepId]
) -> Iterator[frozenset[StepId]]:
    """The stages that the walk begins with: each first piece's producer, and by depth those of the latency gets."""
    by_depth: dict[int, set[StepId]] = {}
    for wanted, criteria in gets.items():
        producer = wanted if wanted in graph.steps else getattr(graph.producer(wanted), "id", None)
        if producer is None or producer in done or criteria is Criteria.THROUGHPUT:
            continue
        if criteria is Criteria.TTFT:
            yield frozenset((producer,))
        else:
            by_depth.setdefault(graph.depth(producer), set()).add(producer)
    yield from map(frozenset, by_depth.values())


def _stages(
    graph: Graph, stage: frozenset[StepId], done: AbstractSet[StepId], seen: set[frozenset[StepId]]
) -> Iterator[frozenset[StepId]]:
    """A stage, and those that lead to it. What feeds a stage that was met before was met, too."""
    while stage and stage not in seen:
        seen.add(stage)
        yield stage
        stage = graph.last_of(each for step in stage for each in graph.feeders(step) if each not in done)
