"""One run's state, as events change it: which steps may start, what fails with what, when it has ended.

No waiting and no I/O: the gateway's executor tells what happened and does what it is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

from workflows.criteria import Criteria
from workflows.graph import Graph, Step
from workflows.names import StepId, VariableId
from workflows.transform import TransformFailed, Value


class VariableState(StrEnum):
    """`skipped` is kept for conditional steps."""

    PENDING = "pending"
    STREAMING = "streaming"
    READY = "ready"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class StepState(StrEnum):
    """A step waits for its inputs, is queued when they are there, and runs from the moment it is asked."""

    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class RunState(StrEnum):
    """A run has failed when a variable that was asked for has, or, if nobody asked for any, when one has."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a variable has no value."""

    code: str
    """`step_failed`, `transform_failed`, `producer_failed`, `cancelled`, `budget_exceeded`, … """
    message: str
    """Of the first failure; it never holds a value."""
    chain: tuple[str, ...]
    """Names of variables, from this one to the one that failed first."""
    status: int | None = None
    """The HTTP status with which an engine refused the first step that failed, if one did."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What an event brought about. Nothing stands in two calls' changes twice, except a step that was asked anew."""

    start: tuple[StepId, ...] = ()
    """Steps that are queued from now on: ask them."""
    ready: Mapping[VariableId, Value] | None = None
    failed: Mapping[VariableId, Failure] | None = None
    cancelled: tuple[VariableId, ...] = ()
    steps: Mapping[StepId, StepState] | None = None
    """Every step whose state changed."""
    stop: tuple[StepId, ...] = ()
    """Steps that were queued or running and are cancelled: stop asking."""
    ended: RunState | None = None
    """Set by the event with which the last step ended."""


class Progress:
    """The state of one run. Events for what has ended already change nothing: a variable is written once."""

    def __init__(
        self,
        graph: Graph,
        *,
        values: Mapping[VariableId, Value] | None = None,
        failures: Mapping[VariableId, Failure] | None = None,
        states: Mapping[StepId, StepState] | None = None,
        gets: Mapping[VariableId | StepId, Criteria] | None = None,
    ) -> None:
        """`values`, `failures` and `states` are what is known already: of a run that another process began. Steps that were
        queued or running there wait anew."""

    graph: Graph
    values: Mapping[VariableId, Value]
    failures: Mapping[VariableId, Failure]
    gets: Mapping[VariableId | StepId, Criteria]

    def begin(self) -> Changes:
        """The steps that are due; failures known at the start are passed on."""
        raise NotImplementedError

    def added(self) -> Changes:
        """After `graph.add`: takes up the new steps; the run is open again if it had ended."""
        raise NotImplementedError

    def running(self, step: StepId) -> Changes:
        """A queued step was asked."""
        raise NotImplementedError

    def streaming(self, variable: VariableId) -> None:
        """The first piece of a variable came."""

    def done(self, step: StepId, outcome: Mapping[VariableId, Value | TransformFailed]) -> Changes:
        """A step was answered; `outcome` is `outcome(step, text)`."""
        raise NotImplementedError

    def failed(self, step: StepId, code: str, message: str, status: int | None = None) -> Changes:
        """A step was not answered: all its variables fail, and what depends on them, unasked."""
        raise NotImplementedError

    def value(self, variable: VariableId, value: Value) -> Changes:
        """A variable from outside the run has its value."""
        raise NotImplementedError

    def lost(self, variable: VariableId, failure: Failure) -> Changes:
        """A variable from outside the run will have no value."""
        raise NotImplementedError

    def cancel(self, code: str = "cancelled", message: str = "The run was cancelled.") -> Changes:
        """Whatever has not ended is cancelled."""
        raise NotImplementedError

    def got(self, variable: VariableId | StepId, criteria: Criteria) -> bool:
        """Somebody asks for a variable. Whether that changes objectives: the strictest criteria are kept."""
        raise NotImplementedError

    def inputs(self, step: StepId) -> Mapping[str, str]:
        """The texts of a step's inputs by template name, once all are ready. Raises KeyError before."""
        raise NotImplementedError

    def step_state(self, step: StepId) -> StepState:
        raise NotImplementedError

    def variable_state(self, variable: VariableId) -> VariableState:
        raise NotImplementedError

    @property
    def state(self) -> RunState:
        raise NotImplementedError

    @property
    def ended(self) -> AbstractSet[StepId]:
        """Steps that ended, however."""
        raise NotImplementedError


def outcome(step: Step, text: str) -> Mapping[VariableId, Value | TransformFailed]:
    """What a step's answer makes of each of its variables. Proportional to the text: off the event loop for a long one."""
    raise NotImplementedError
