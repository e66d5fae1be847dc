"""One run's state, as events change it: which steps may start, what fails with what, when it has ended.

No waiting and no I/O: the gateway's executor tells what happened and does what it is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from workflows.criteria import Criteria
from workflows.graph import Graph, Step
from workflows.names import StepId, VariableId
from workflows.transform import TransformFailed, Value, apply, as_text, bounded
from workflows.transform import effort as transforms_effort
from workflows.unfolding import Added
from workflows.values import Held, Opaque


class VariableState(StrEnum):
    """`skipped`: the branch that would have written it was not taken."""

    PENDING = "pending"
    STREAMING = "streaming"
    READY = "ready"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class StepState(StrEnum):
    """A step waits for its inputs, is queued when they are there, and runs from the moment it is asked.

    `skipped`: its branch was not taken. `unknown`: it has effects, and its process ended while it ran; see Progress.resolve.
    """

    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    UNKNOWN = "unknown"


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


@dataclass(slots=True)
class Changes:
    """What one event brought about; empty for an event that came too late."""

    start: list[StepId] = field(default_factory=list)
    """Steps that are queued from now on, in the order they were added: ask them."""
    stop: list[StepId] = field(default_factory=list)
    """Steps that were queued or running and are cancelled: stop asking."""
    steps: dict[StepId, StepState] = field(default_factory=dict)
    """Every step whose state changed."""
    ready: dict[VariableId, Value] = field(default_factory=dict)
    failed: dict[VariableId, Failure] = field(default_factory=dict)
    """Also those that were cancelled: `Failure.code` says so."""
    opaque: dict[VariableId, Opaque] = field(default_factory=dict)
    """Ready as well; never stored."""
    skipped: list[VariableId] = field(default_factory=list)
    """Variables that will have no value, for their branch was not taken."""
    dropped: list[StepId] = field(default_factory=list)
    """Steps that ran on items of a list that failed: whatever they made is to be forgotten, also where they had ended. Those
    to be stopped are in `stop`, too."""
    ended: RunState | None = None
    """The run's state, if its last step ended with this event."""

    def __bool__(self) -> bool:
        return bool(self.steps or self.ready or self.failed or self.ended)


CANCELLED = "cancelled"
"""The code of a failure that is none."""
_OPEN = (StepState.WAITING, StepState.QUEUED, StepState.RUNNING)
_STRICTNESS = (Criteria.THROUGHPUT, Criteria.LATENCY, Criteria.TTFT)


class Progress:
    """The state of one run. Events for what has ended already change nothing: a variable is written once.

    An event costs what it changes, not what the run has.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        values: Mapping[VariableId, Value] | None = None,
        failures: Mapping[VariableId, Failure] | None = None,
        states: Mapping[StepId, StepState] | None = None,
        gets: Mapping[VariableId | StepId, Criteria] | None = None,
    ) -> None:
        """`values`, `failures` and `states` are what is known of a run that another process began.

        A step that was queued or running there waits anew, and so does one that is said to have ended while one of its
        variables has neither a value nor a failure.
        """
        self.graph = graph
        self._values = dict(values or {})
        self._failures = dict(failures or {})
        self._gets = dict(gets or {})
        self._streaming: set[VariableId] = set()
        self._states: dict[StepId, StepState] = {}
        self._missing: dict[StepId, int] = {}
        self._open = 0
        self._cancelled: Failure | None = None
        self._take_up(states or {})

    @property
    def values(self) -> Mapping[VariableId, Value]:
        """Of every variable that is ready."""
        return MappingProxyType(self._values)

    @property
    def failures(self) -> Mapping[VariableId, Failure]:
        """Of every variable that failed or was cancelled."""
        return MappingProxyType(self._failures)

    @property
    def gets(self) -> Mapping[VariableId | StepId, Criteria]:
        """The strictest criteria asked for, by variable, or by step for a call that waits for its own answer."""
        return MappingProxyType(self._gets)

    @property
    def steps(self) -> Mapping[StepId, StepState]:
        """The state of every step."""
        return MappingProxyType(self._states)

    @property
    def ended(self) -> frozenset[StepId]:
        """The steps that ended, however."""
        return frozenset(step for step, state in self._states.items() if state not in _OPEN)

    @property
    def state(self) -> RunState:
        """The run's state now. Adding steps opens a run again, unless it was cancelled."""
        if self._cancelled is not None:
            return RunState.CANCELLED if self._cancelled.code == CANCELLED else RunState.FAILED
        if self._open:
            return RunState.RUNNING
        asked = self._gets.keys() & self.graph.variables
        asked |= {variable for step in self._gets if step in self._states for variable in self._writes(step)}
        failed = asked & self._failures.keys() if self._gets else self._failures.keys()
        refused = any(self._states.get(step) is StepState.FAILED for step in self._gets)
        return RunState.FAILED if failed or refused else RunState.DONE

    def variable(self, variable: VariableId) -> VariableState:
        """A variable's state."""
        if variable in self._values:
            return VariableState.READY
        failure = self._failures.get(variable)
        if failure is not None:
            return VariableState.CANCELLED if failure.code == CANCELLED else VariableState.FAILED
        return VariableState.STREAMING if variable in self._streaming else VariableState.PENDING

    def inputs(self, step: StepId) -> Mapping[str, str]:
        """The texts of a step's inputs by template name. Raises KeyError while one is missing."""
        each = self.graph.steps[step]
        return {
            **each.given,
            **{name: as_text(self._values[variable]) for name, variable in each.reads.items()},
        }

    # ---- events

    def begin(self) -> Changes:
        """Starts what is due; failures known from the start are passed on. Called once, before any other event."""
        changes = self._started(self._states)
        changes.ended = None if self._open else self.state
        return changes

    def added(self) -> Changes:
        """After `graph.add`: takes up the new steps."""
        new = [step for step in self.graph.steps if step not in self._states]
        self._take_up({})
        if self._cancelled is not None:
            changes = Changes()
            self._end_steps(new, StepState.CANCELLED, self._cancelled, changes)
            return self._closed(changes)
        return self._started(new)

    def running(self, step: StepId) -> Changes:
        """A queued step was asked."""
        changes = Changes()
        if self._states[step] is StepState.QUEUED:
            self._set(step, StepState.RUNNING, changes)
        return changes

    def streaming(self, variable: VariableId) -> bool:
        """A piece of a variable came. Whether it was the first."""
        first = self.variable(variable) is VariableState.PENDING
        if first:
            self._streaming.add(variable)
        return first

    def answered(self, step: StepId, outcome: Mapping[VariableId, Value | TransformFailed]) -> Changes:
        """A step was answered; `outcome` is `outcomes(step, text)`. What a transform could not make fails alone."""
        changes = Changes()
        if self._states[step] not in _OPEN:
            return changes
        self._set(step, StepState.DONE, changes)
        for variable, made in outcome.items():
            if isinstance(made, TransformFailed):
                failure = Failure("transform_failed", made.message, (self.graph.name(variable),))
                self._fail(variable, failure, changes)
            else:
                self._write(variable, made, changes)
        return self._closed(changes)

    def refused(self, step: StepId, code: str, message: str, status: int | None = None) -> Changes:
        """A step was not answered: its variables fail, and what depends on them, unasked; nothing else does."""
        changes = Changes()
        if self._states[step] in _OPEN:
            self._end_steps([step], StepState.FAILED, Failure(code, message, (), status), changes)
        return self._closed(changes)

    def value(self, variable: VariableId, value: Value) -> Changes:
        """A variable from outside the run has its value."""
        changes = Changes()
        self._write(variable, value, changes)
        return self._closed(changes)

    def lost(self, variable: VariableId, failure: Failure) -> Changes:
        """A variable from outside the run will have no value."""
        changes = Changes()
        self._fail(variable, failure, changes)
        return self._closed(changes)

    def cancel(self, code: str = CANCELLED, message: str = "The run was cancelled.") -> Changes:
        """Whatever has not ended is cancelled; `code` is another where a budget or a restart is the reason."""
        changes = Changes()
        if self._open:
            self._cancelled = Failure(code, message, ())
            open_steps = [step for step, state in self._states.items() if state in _OPEN]
            self._end_steps(open_steps, StepState.CANCELLED, self._cancelled, changes)
        return self._closed(changes)

    def got(self, wanted: VariableId | StepId, criteria: Criteria) -> bool:
        """Somebody asks for a variable, or waits for a step. Whether objectives may differ now: the strictest is kept."""
        before = self._gets.get(wanted)
        if before is not None and _STRICTNESS.index(before) >= _STRICTNESS.index(criteria):
            return False
        self._gets[wanted] = criteria
        return True

    def held(self, step: StepId) -> Mapping[str, Held]:
        """A step's inputs by the names under which it reads them, texts of its own included. Skipped ones are missing.
        Raises KeyError while one is missing."""
        raise NotImplementedError

    def grow(self, added: Added) -> Changes:
        """After Unfolding: adds to the graph, and takes it up. Call it before anything else is told."""
        raise NotImplementedError

    def unknown(self, step: StepId) -> Changes:
        """Whether a step with effects was carried out cannot be known: the run waits for `resolve`."""
        raise NotImplementedError

    def resolve(self, step: StepId, how: Literal["retry", "skip", "value"], value: Value = "") -> Changes:
        """What became of an unknown step: ask it again, go on without it, or with this value. Raises ValueError for a step
        that is not unknown."""
        raise NotImplementedError

    @property
    def skipped(self) -> AbstractSet[VariableId]:
        """Variables whose branch was not taken."""
        raise NotImplementedError

    def why(self) -> Failure | None:
        """Of a run that failed: the failure of what was asked for; `output_skipped` where its branch was not taken."""
        raise NotImplementedError

    # ---- inside

    def _writes(self, step: StepId) -> Iterable[VariableId]:
        return self.graph.steps[step].writes.values()

    def _take_up(self, states: Mapping[StepId, StepState]) -> None:
        """Steps of the graph that are not known yet."""
        for step in self.graph.steps.values():
            if step.id in self._states:
                continue
            said = states.get(step.id, StepState.WAITING)
            whole = all(each in self._values or each in self._failures for each in step.writes.values())
            ended = whole and (said not in _OPEN or bool(step.writes))
            self._states[step.id] = said if ended and said not in _OPEN else self._implied(step, ended)
            self._missing[step.id] = len(set(step.reads.values()) - self._values.keys())
            self._open += not ended

    def _implied(self, step: Step, ended: bool) -> StepState:
        """The state of a step of which only its variables are known."""
        if not ended:
            return StepState.WAITING
        wrote = any(variable in self._values for variable in step.writes.values())
        return StepState.DONE if wrote else StepState.FAILED

    def _started(self, steps: Iterable[StepId]) -> Changes:
        changes = Changes()
        for step in [step for step in steps if self._states[step] is StepState.WAITING]:
            read = self.graph.steps[step].reads.values()
            lost = next((variable for variable in read if variable in self._failures), None)
            if lost is not None:
                self._spread(lost, changes)
            elif not self._missing[step]:
                self._queue(step, changes)
        return self._closed(changes)

    def _set(self, step: StepId, state: StepState, changes: Changes) -> None:
        self._open += (state in _OPEN) - (self._states[step] in _OPEN)
        self._states[step] = changes.steps[step] = state

    def _queue(self, step: StepId, changes: Changes) -> None:
        self._set(step, StepState.QUEUED, changes)
        changes.start.append(step)

    def _write(self, variable: VariableId, value: Value, changes: Changes) -> None:
        if variable in self._values or variable in self._failures:
            return
        self._values[variable] = changes.ready[variable] = value
        self._streaming.discard(variable)
        for step in self.graph.consumers(variable):
            self._missing[step.id] -= 1
            if not self._missing[step.id] and self._states[step.id] is StepState.WAITING:
                self._queue(step.id, changes)

    def _fail(self, variable: VariableId, failure: Failure, changes: Changes) -> None:
        if variable in self._values or variable in self._failures:
            return
        self._failures[variable] = changes.failed[variable] = failure
        self._streaming.discard(variable)
        self._spread(variable, changes)

    def _spread(self, lost: VariableId, changes: Changes) -> None:
        """Fails what depends on a variable that has failed, breadth first: the shortest chain is told."""
        left = deque([lost])
        while left:
            variable = left.popleft()
            cause = self._failures[variable]
            for step in self.graph.consumers(variable):
                if self._states[step.id] is StepState.WAITING:
                    cancelled = cause.code == CANCELLED
                    self._set(step.id, StepState.CANCELLED if cancelled else StepState.FAILED, changes)
                    left.extend(self._fail_all(step, _inherited(cause), changes))

    def _fail_all(self, step: Step, failure: Failure, changes: Changes) -> list[VariableId]:
        """Fails a step's variables, each under its own name; those that were not written yet."""
        failed = []
        for name, variable in step.writes.items():
            if variable not in self._values and variable not in self._failures:
                named = replace(failure, chain=(name, *failure.chain))
                self._failures[variable] = changes.failed[variable] = named
                self._streaming.discard(variable)
                failed.append(variable)
        return failed

    def _end_steps(
        self, steps: Iterable[StepId], state: StepState, failure: Failure, changes: Changes
    ) -> None:
        ended = [step for step in steps if self._states[step] in _OPEN]
        if state is StepState.CANCELLED:
            changes.stop += [step for step in ended if self._states[step] is not StepState.WAITING]
        for step in ended:
            self._set(step, state, changes)
        for step in ended:
            for variable in self._fail_all(self.graph.steps[step], failure, changes):
                self._spread(variable, changes)

    def _closed(self, changes: Changes) -> Changes:
        if changes.steps and not self._open:
            changes.ended = self.state
        return changes


def _inherited(cause: Failure) -> Failure:
    """The failure of what depends on a variable; a cancelled one's dependents are cancelled."""
    return cause if cause.code == CANCELLED else replace(cause, code="producer_failed")


def effort(step: Step, text: str) -> int:
    """What `outcomes` costs at worst, in characters read."""
    return sum(transforms_effort(output.transforms, text) for output in step.outputs)


def outcomes(step: Step, text: str, max_value_bytes: int) -> Mapping[VariableId, Value | TransformFailed]:
    """What a step's answer makes of each of its variables; a value longer than `max_value_bytes` in UTF-8 fails.

    Costs `effort`: much of it belongs off the event loop.
    """
    made: dict[VariableId, Value | TransformFailed] = {}
    for output in step.outputs:
        try:
            made[step.writes[output.name]] = bounded(apply(output.transforms, text), max_value_bytes)
        except TransformFailed as failure:
            made[step.writes[output.name]] = failure
    return made
