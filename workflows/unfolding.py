"""A definition becomes steps, piece by piece, as the lists that its steps work on become known.

Pure and deterministic: steps and their ids follow from the definition, the plans, the inputs and the lists alone. So another
process that takes a run up makes the same graph of the values that are stored (`replay`).

    began   steps that are known at once, and a *gather* for each step that works on a list; it waits for its pieces
    item    an item of a list that is still written: pieces of steps that start on items
    ready   a list is whole: its (further) pieces; the gather learns what it reads

| step              | ids                                                            |
|-------------------|----------------------------------------------------------------|
| one primitive     | `queries`                                                      |
| embed             | `v.embed[0]` …, `v`                                            |
| ingest            | `index.embed[0]` …, `index.ingest[0]` …, `index`               |
| search            | `found.embed[0]` …, `found.search[0]` …, `found`               |
| rerank            | `top.rerank[0]` …, `top`                                       |
| map, fold         | `answer[0]` …, `answer`                                        |

What a step's `what` holds, by primitive, and what it reads:

| primitive | `what`                                                       | reads; what it answers with                    |
|-----------|--------------------------------------------------------------|------------------------------------------------|
| chat      | `splits` {how, pattern} and `max_items`, where it splits     | `Progress.inputs`; `outcomes` of its text      |
| tool      | `component`, `args`, `idempotent`                            | `compute.arguments`; a text                    |
| embed     | `component`                                                  | `compute.texts`; Opaque of Vectors             |
| ingest    | `component`, `index` (its step), `collection`, `start` (the place of its first text) | `vectors`; Opaque of the index |
| search    | `component`, `index` (`step:…`, `collection:…`, `component:…`), `k` | `vectors` (and `index`, of a step's), else `compute.texts`; a list: hits per query in order |
| rerank    | `component`, `by` (a name it reads)                          | `compute.texts`; `compute.scores` of what came |
| split     | `component` (whose tokens), `tokens`, `overlap`              | `compute.computed`                             |
| when, first_of, merge, transform, gather |                               | `compute.computed`                             |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workflows.definition import Definition
from workflows.names import RunId, StepId, VariableId
from workflows.plan import StepPlan
from workflows.graph import Step
from workflows.transform import Value

MAX_PIECES = 32
"""A whole list is cut into so many pieces at most."""


@dataclass(slots=True)
class Added:
    """What a run grows by. `Progress.grow` takes it up."""

    steps: list[Step] = field(default_factory=list)
    reads: list[tuple[StepId, Mapping[str, VariableId]]] = field(default_factory=list)
    """Gathers that learn their pieces; it is all they will read."""
    values: dict[VariableId, Value] = field(default_factory=dict)
    """Of the inputs."""
    refused: list[tuple[StepId, str, str]] = field(default_factory=list)
    """(step, code, message): a list has more items than a step may take."""

    def __bool__(self) -> bool:
        return bool(self.steps or self.reads or self.values or self.refused)


class Unfolding:
    """See the module. `plans` has one for each step of the definition."""

    def __init__(
        self,
        run_id: RunId,
        definition: Definition,
        plans: Mapping[str, StepPlan],
        inputs: Mapping[str, Value],
        *,
        max_items: int = 1000,
    ) -> None:
        """`max_items`: the longest list that `map`, `fold` and `splits` take."""
        raise NotImplementedError

    @property
    def output(self) -> VariableId:
        """The variable of the definition's output."""
        raise NotImplementedError

    def variable(self, name: str) -> VariableId:
        """The variable of an input, a step of the definition, or a piece (by its step's id): `var_` and 32 hex digits."""
        raise NotImplementedError

    def begin(self) -> Added:
        """The graph as far as it is known from the start. Called once."""
        raise NotImplementedError

    def ready(self, variable: VariableId, value: Value) -> Added:
        """A variable has its value; what grows by it, if anything."""
        raise NotImplementedError

    def item(self, step: StepId, index: int, text: str) -> Added:
        """An item of a list that the chat `step` is still writing; items come in order."""
        raise NotImplementedError

    def replay(self, values: Mapping[VariableId, Value]) -> Added:
        """Instead of `begin`: the graph as it is with these values stored."""
        raise NotImplementedError
