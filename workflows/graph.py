"""Steps joined by write-once variables: a directed graph without cycles that grows call by call or comes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Self

from workflows.names import StepId, VariableId
from workflows.submitted import Output, RunAsked


@dataclass(frozen=True, slots=True)
class Step:
    """One chat call of a run."""

    id: StepId
    name: str
    """For people: its first output's name."""
    chat: Mapping[str, Any]
    """The chat body without `understudy`; its messages are templates."""
    given: Mapping[str, str]
    """Values that came as text with the request, by template name."""
    reads: Mapping[str, VariableId]
    """Variables whose values it waits for, by template name."""
    writes: Mapping[str, VariableId]
    """By output name."""
    outputs: tuple[Output, ...]
    """What becomes of its answer; one per entry of `writes`."""


class Graph:
    """The steps of one run. A variable has one producer, or none here: then its value comes from outside."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        """Raises as `add` does."""

    def add(self, *steps: Step) -> None:
        """Adds steps, in any order, all or none.

        Raises WorkflowError: `duplicate_output` (a variable has two producers, a step's id is taken), `cycle` (its names listed).
        """
        raise NotImplementedError

    @property
    def steps(self) -> Mapping[StepId, Step]: ...
    def producer(self, variable: VariableId) -> Step | None: ...
    def consumers(self, variable: VariableId) -> tuple[Step, ...]: ...
    def name(self, variable: VariableId) -> str:
        """The name of a variable that a step writes or reads; its id where nobody here knows it."""

    def before(self, step: StepId) -> frozenset[StepId]:
        """The steps whose variables it reads."""

    def after(self, step: StepId) -> frozenset[StepId]:
        """The steps that read its variables."""

    def feeders(self, step: StepId) -> frozenset[StepId]:
        """`before` without those that another of them needs, too: what runs just before it."""

    def depth(self, step: StepId) -> int:
        """Steps on the longest way from a step without producers: 0 for such a one."""

    def order(self) -> tuple[StepId, ...]:
        """All steps, each after those it reads from."""

    def due(self, ready: AbstractSet[VariableId]) -> tuple[Step, ...]:
        """The steps whose inputs are all ready, started or not, in the order they were added."""

    def critical_path(self, weight: Callable[[StepId], float]) -> tuple[StepId, ...]:
        """The heaviest way through the graph, first step first; () without steps."""

    def dumped(self) -> dict[str, Any]:
        """The graph as JSON values; a text given to many steps stands there once."""

    @classmethod
    def loaded(cls, dumped: Mapping[str, Any]) -> Self:
        """The graph that `dumped` was made of."""


@dataclass(frozen=True, slots=True)
class Built:
    """A run's graph with ids, as it is about to be stored."""

    graph: Graph
    variables: Mapping[str, VariableId]
    """Ids of the run's outputs by name."""
    gets: Mapping[VariableId, str]


def build(asked: RunAsked, from_app: Mapping[str, VariableId]) -> Built:
    """The graph of a run with new ids; `from_app` has an id for each of `asked.from_app`."""
    raise NotImplementedError
