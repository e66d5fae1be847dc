"""Runs of workflows: a run whose steps are of more kinds than chat calls, and which grows as values come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.runs.caller import Caller
from store.workflows.records import RunBudget
from workflows.criteria import Criteria
from workflows.definition import Definition
from workflows.transform import Value


@dataclass(frozen=True, slots=True)
class NewWorkflow:
    """A workflow that is to be carried out: `Runs.begin_workflow(new) -> LiveRun | Begun`.

    It raises what `Runs.begin` does: WorkflowError (code, status), TooManyRuns, TooManyBytes, IdempotencyConflict, StoreError;
    `gateway.runs.intake.refusals` makes RequestErrors of them. Of the LiveRun:

    - `run.output`: the output's VariableId; `run.cells[run.output]` is its Cell from the beginning on. While the output step's
      text comes, `cell.text` grows (`cell.changed()`); `cell.ended` and `cell.kept` tell its end, `cell.failure` why it failed.
    - `run.used`: prompt, cached and completion tokens and cost so far of all its steps (warming apart).
    - `Runs.cancel(run)` when the client of a foreground run leaves.

    A step that is `unknown`: `await Runs.resolve(tenant, run_id, step_id, store.workflows.records.Resolution(how, value))`, in any
    process; False where there is no such step of that tenant that waits for it.
    """

    caller: Caller
    definition: Definition
    inputs: Mapping[str, Value]
    """As read_inputs gave them."""
    app: str = ""
    criteria: Criteria = Criteria.LATENCY
    """Of the output: TTFT where the client reads it as a stream."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Of the client's chat completion: sampling fields that the output's chat takes over where it does not set them."""
    budget: RunBudget = field(default_factory=RunBudget)
    background: bool = False
    """It goes on when its client leaves."""
    idempotency_key: str = ""
    idempotency_hash: bytes = b""
    size_bytes: int = 0
    """Of the request that it came with."""


@dataclass(slots=True)
class Used:
    """What the steps of a run have used: the sum of their usages."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    warmed_tokens: int = 0
    """Of prompts computed early, in none of the above."""
