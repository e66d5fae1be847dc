"""How urgent each step of a run is, deduced from what was asked for (Parrot, §5.2).

From each latency get backwards, stage by stage: a stage of one step is `latency`; two or more that feed the stage after them
are a task group, whose last member counts and not each one's latency. What is got for throughput, and what nobody asked for,
is `throughput`. Where a step is in several of these, the strictest holds.

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
    """What the engines' line is told of a step."""

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

        `expected` has the tokens expected of a step, prompt and answer; 1 where it is missing. `done` has whatever ended.
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


def objectives(
    graph: Graph,
    gets: Mapping[VariableId | StepId, Criteria],
    done: AbstractSet[StepId],
    expected: Mapping[StepId, float],
) -> Mapping[StepId, Objective]:
    """The objective of every step that is not in `done`; see Objectives."""
    found = Objectives(graph, gets, done, expected)
    return {step: found.of(step) for step in graph.steps if step not in done}


_UNASKED = (Rank.THROUGHPUT, "")


def _ranks(
    graph: Graph, gets: Mapping[VariableId | StepId, Criteria], done: AbstractSet[StepId]
) -> Mapping[StepId, tuple[Rank, str]]:
    """Class and task group of each step that leads to a latency get."""
    ranks: dict[StepId, tuple[Rank, str]] = {}
    seen: set[frozenset[StepId]] = set()
    for wanted, criteria in gets.items():
        producer = wanted if wanted in graph.steps else getattr(graph.producer(wanted), "id", None)
        if producer is None or producer in done or criteria is Criteria.THROUGHPUT:
            continue
        for number, stage in enumerate(_stages(graph, producer, done, seen)):
            found = (Rank.LATENCY, "") if len(stage) == 1 else (Rank.GROUP, f"{producer}.{number}")
            for step in stage:
                ranks[step] = min(ranks.get(step, found), found)
    return ranks


def _stages(
    graph: Graph, producer: StepId, done: AbstractSet[StepId], seen: set[frozenset[StepId]]
) -> Iterator[frozenset[StepId]]:
    """The stages that lead to a step, itself first. What feeds a stage that was met before was met, too."""
    stage = frozenset((producer,))
    while stage and stage not in seen:
        seen.add(stage)
        yield stage
        stage = graph.last_of(each for step in stage for each in graph.feeders(step) if each not in done)
