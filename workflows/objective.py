"""How urgent each step of a run is, deduced from what was asked for (Parrot, §5.2).

From each latency get backwards, stage by stage: a stage of one step is `latency`; two or more that feed the stage after them are
a task group, whose last member counts and not each one's latency. What is got for throughput, and what nobody asked for, is
`throughput`. Where a step is in several of these, the strictest holds.
"""

from __future__ import annotations

from collections.abc import Mapping
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


def objectives(
    graph: Graph,
    gets: Mapping[VariableId | StepId, Criteria],
    done: AbstractSet[StepId],
    expected: Mapping[StepId, float],
) -> Mapping[StepId, Objective]:
    """The objective of every step that is not in `done`.

    `gets` has what was asked for, by variable; a call that waits for its own answer may stand there by its step's id. `expected`
    has the tokens expected of a step, prompt and answer; 1 where it is missing. `done` has whatever ended, however.
    """
    raise NotImplementedError
