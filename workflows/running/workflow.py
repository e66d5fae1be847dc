"""Describes what a run goes by: a workflow, by which it grows as values come; or the calls that it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from store.workflows.records import RunBudget
from workflows import definition, plan
from workflows.criteria import Criteria
from workflows.definition import Definition
from workflows.names import StepId, VariableId
from workflows.plan import StepPlan
from workflows.running.door import Caller
from workflows.running.indexes import RunIndex
from workflows.running.scores import Scores
from workflows.transform import Value
from workflows.unfolding import Unfolding


@dataclass(frozen=True, slots=True)
class NewWorkflow:
    """A workflow that is to be carried out: `Runs.begin_workflow(new) -> LiveRun | Begun`.

    It raises what `Runs.begin` does: WorkflowError (code, status), TooManyRuns, TooManyBytes, IdempotencyConflict,
    StoreError; `gateway.runs.intake.refusals` makes RequestErrors of them. Of the LiveRun:

    - `run.cells[run.output]` is the output's Cell from the beginning on. While the output step's text comes, `cell.text`
      grows (`cell.changed()`); `cell.ended` and `cell.kept` tell its end, `cell.failure` why it failed.
    - `run.used`: prompt, cached and completion tokens and cost so far of all its steps.
    - `Runs.cancel(run)` when the client of a foreground run leaves.
    """

    caller: Caller
    definition: Definition
    inputs: Mapping[str, Value]
    """As read_inputs gave them."""
    app: str = ""
    criteria: Criteria = Criteria.LATENCY
    """The criteria of the output: TTFT if the client reads it as a stream."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The client's sampling fields, which the output's chat takes over if it does not set them."""
    budget: RunBudget = field(default_factory=RunBudget)
    background: bool = False
    """It goes on when its client leaves."""
    idempotency_key: str = ""
    idempotency_hash: bytes = b""
    size_bytes: int = 0
    """The bytes of the request that it came with."""


@dataclass(slots=True)
class WorkLeft:
    """Tokens expected of the chats of one run that have not ended."""

    steps: dict[StepId, float] = field(default_factory=dict)
    ahead: dict[str, float] = field(default_factory=dict)
    """By step of the definition, of those that work on a list which is not known yet."""
    total: float = 0.0


@dataclass(slots=True)
class Flow:
    """By what a run grows, and what it has beside values. For the event loop's thread only."""

    definition: Definition
    plans: Mapping[str, StepPlan]
    """By step of the definition."""
    inputs: Mapping[str, Value]
    fields: Mapping[str, Any]
    unfolding: Unfolding
    given: Mapping[VariableId, Value]
    """Values that are known from the beginning: of its inputs."""
    indexes: dict[str, RunIndex] = field(default_factory=dict)
    """By `ingest` step of the definition."""
    scores: dict[str, Scores] = field(default_factory=dict)
    """By `rerank` step of the definition: pieces of a list may hold the same texts."""

    work: WorkLeft = field(default_factory=WorkLeft)

    @property
    def depth(self) -> int:
        """Primitives from its beginning to its farthest end."""
        return max((each.depth for each in self.plans.values()), default=0)

    @property
    def output(self) -> VariableId:
        """The variable of its output step."""
        return self.unfolding.output

    @property
    def declared(self) -> bool:
        """Tell if it is a workflow's; else clients add steps to it, and it grows by nothing else."""
        return bool(self.definition.name)

    def context(self, caller: Caller) -> dict[str, Any]:
        """As JSON values: what another process needs to carry it on, in the name of its caller."""
        if not self.declared:
            return {}
        return {
            "definition": definition.dumped(self.definition),
            "plans": plan.dumped(self.plans),
            "inputs": dict(self.inputs),
            "fields": dict(self.fields),
            "caller": caller.kept(),
        }

    @classmethod
    def read(cls, run_id: str, context: Mapping[str, Any], max_items: int) -> Flow:
        """Read what `context` gave."""
        declared, plans = definition.loaded(context["definition"]), plan.loaded(context["plans"])
        inputs = context["inputs"]
        unfolding = Unfolding(run_id, declared, plans, inputs, max_items=max_items)
        given = {unfolding.variable(name): value for name, value in inputs.items()}
        return cls(declared, plans, inputs, context["fields"], unfolding, given)

    @classmethod
    def of_calls(cls) -> Flow:
        """Return the flow of a run whose steps come from clients."""
        nothing = definition.submitted(())
        return cls(nothing, {}, {}, {}, Unfolding("", nothing, {}, {}), {})


@dataclass(slots=True)
class Used:
    """The use of a run's steps: the sum of their usages."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
