"""A run, or a part of one, that is to be carried out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from store.workflows.records import RunBudget
from workflows.criteria import Criteria
from workflows.graph import Step
from workflows.names import RunId, StepId, VariableId
from workflows.running.door import Caller
from workflows.running.workflow import Flow
from workflows.unfolding import Added


@dataclass(frozen=True, slots=True)
class NewGraph:
    """The steps that are to be carried out."""

    caller: Caller
    steps: tuple[Step, ...]
    app: str = ""
    gets: Mapping[VariableId | StepId, Criteria] = field(default_factory=dict)
    budget: RunBudget = field(default_factory=RunBudget)
    background: bool = True
    """It goes on when its client leaves."""
    attached: StepId | None = None
    """The step that the client's own request carries out."""
    idempotency_key: str = ""
    idempotency_hash: bytes = b""
    size_bytes: int = 0
    """The bytes of the request that it came with."""
    id: RunId = ""
    """New unless given."""
    flow: Flow = field(default_factory=Flow.of_calls)
    added: Added | None = None
    """For a workflow: what it begins with. `steps` are its first steps."""
