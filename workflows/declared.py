"""Reads a workflow's definition, and lists everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from workflows.definition import PASSES, Definition, Pass
from workflows.errors import WorkflowError

Does = Literal["embed", "rerank", "search", "tool"]
"""What a component does."""


@dataclass(frozen=True, slots=True)
class World:
    """What a definition may refer to, and its bounds."""

    components: Mapping[str, Does]
    """Components by name."""
    is_model: Callable[[str], bool]
    """Whether a chat step may ask a model of this name."""
    taken: Callable[[str], bool]
    """Whether a workflow may not have this name: a model of the configuration has it, or another workflow."""
    max_steps: int = 1000
    max_depth: int = 100
    """Most steps on a way from an input to the output."""
    max_items: int = 1000
    passes: frozenset[Pass] = frozenset(PASSES)
    """Where a definition does not say."""

    def default(self, does: Does) -> str | None:
        """Who does it where a step names nobody: the only component configured for it, else `local`; None: say which."""
        configured = [name for name, each in self.components.items() if each == does and name not in BUILT_IN]
        if len(configured) == 1:
            return configured[0]
        built_in = next((name for name, each in BUILT_IN.items() if each == does), None)
        return built_in if not configured else None


BUILT_IN: Mapping[str, Does] = {"local": "embed", "local-rerank": "rerank"}
"""Components that are there without being configured: the house's embedder, and its reranker by vectors and words."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a definition."""

    workflow: str
    step: str
    """Empty where it is not of one step."""
    field: str
    value: str
    """As written, shortened; empty where nothing was."""
    problem: str
    remedy: str

    def __str__(self) -> str:
        place = ".".join(filter(None, (self.workflow, self.step, self.field)))
        value = f" is {self.value}" if self.value else ""
        return f"workflows.{place}{value}: {self.problem}; {self.remedy}"


class DefinitionError(WorkflowError):
    """A definition cannot be taken: 400 `invalid_workflow`, its text lists every fault, a line each."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(map(str, faults)), param=faults[0].step or faults[0].field or None)
        self.faults = tuple(faults)


def read_definition(name: str, value: object, world: World) -> Definition:
    """The definition of a workflow, from its JSON. Raises DefinitionError with every fault that was found."""
    raise NotImplementedError
