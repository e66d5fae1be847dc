"""One run's state, as events change it: which steps may start, what fails with what, when it has ended.

The state of a step and the value of a variable are nowhere else in a process. No waiting and no I/O: the executor tells what
happened and does what it is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import Literal

from workflows.criteria import Criteria
from workflows.definition import Splits
from workflows.graph import Graph, Step
from workflows.items import split
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


CANCELLED = "cancelled"
"""The code of a failure that is none."""
SKIPPED = "skipped"
"""The code of what a variable is told by whose branch was not taken."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a variable has no value."""

    code: str
    """The first failure's code: `step_failed`, `transform_failed`, `cancelled`, `budget_exceeded`, what refused it, …"""
    message: str
    """The message of the same; it never holds a value."""
    chain: tuple[str, ...]
    """Names of variables, from this one to the one that failed first."""
    status: int | None = None
    """The HTTP status with which an engine refused the first step that failed, if one did."""


class Variable:
    """A variable of a run, written once."""

    __slots__ = ("failure", "held", "id", "name", "state")

    def __init__(self, id: VariableId, name: str) -> None:
        self.id, self.name = id, name
        self.state = VariableState.PENDING
        self.held: Held | None = None
        """The value of one that is ready: None if it is vectors or an index that nothing reads any more, or not stored."""
        self.failure: Failure | None = None

    @property
    def ended(self) -> bool:
        """Tell if it has its value, or never will."""
        return self.state not in (VariableState.PENDING, VariableState.STREAMING)

    @property
    def value(self) -> Value | None:
        """Its value, if it has one that can be told."""
        return None if isinstance(self.held, Opaque) else self.held

    def become(self, held: Held | None) -> None:
        """It has its value."""
        self.state, self.held = VariableState.READY, held

    def fail(self, failure: Failure) -> None:
        """It will never have one, for its step failed, was cancelled or skipped: the failure's code says which."""
        self.state = _STATES.get(failure.code, VariableState.FAILED)
        self.held, self.failure = None, failure

    def skip(self) -> None:
        """It will never have one, for its branch was not taken."""
        self.fail(Failure(SKIPPED, "The branch that would have written it was not taken.", (self.name,)))


@dataclass(slots=True)
class Changes:
    """The changes that one event brought about; empty for an event that came too late."""

    start: list[StepId] = field(default_factory=list)
    """Steps that are queued from now on, in the order they were added: ask them."""
    stop: list[StepId] = field(default_factory=list)
    """Steps that were queued or running and are cancelled: stop asking."""
    steps: dict[StepId, StepState] = field(default_factory=dict)
    """Every step whose state changed."""
    variables: dict[VariableId, Variable] = field(default_factory=dict)
    """Every variable that ended."""
    dropped: list[StepId] = field(default_factory=list)
    """Steps that ran on items of a list that failed: whatever they made is to be forgotten, also where they had ended. Those
    to be stopped are in `stop`, too."""
    ended: RunState | None = None
    """The run's state, if its last step ended with this event."""

    def __bool__(self) -> bool:
        return bool(self.steps or self.variables or self.ended)


OUTPUT_SKIPPED = "output_skipped"
"""The code of a run whose output's branch was not taken."""
_STATES = {CANCELLED: VariableState.CANCELLED, SKIPPED: VariableState.SKIPPED}
_OPEN = (StepState.WAITING, StepState.QUEUED, StepState.RUNNING, StepState.UNKNOWN)
_ASKED = (StepState.QUEUED, StepState.RUNNING)
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
        made: Callable[[VariableId, str], Variable] = Variable,
    ) -> None:
        """`values`, `failures` and `states` are what is known of a run that another process began; `made` gives a variable
        for the id and the name of one that a step writes.

        A step that was queued or running there waits anew, and so does one that made vectors or an index which something
        still reads. If nothing does, its variable is ready, without a value: what only waits for it may start.
        """
        self.graph = graph
        self.variables: dict[VariableId, Variable] = {}
        """Those that its steps write."""
        self.outside: dict[VariableId, Variable] = {}
        """Those that its steps read and others write, as far as it was told of them."""
        self._made = made
        self._gets = dict(gets or {})
        self._may_skip: set[VariableId] = set()
        """Variables of steps that have a condition, or read such: what reads them fails only once it cannot be skipped."""
        self._careful: set[StepId] = set()
        """Steps for which it is not enough that all their inputs ended."""
        self._failing: set[StepId] = set()
        """Steps of which an input failed, and which wait to know whether it is for that."""
        self._states: dict[StepId, StepState] = {}
        self._missing: dict[StepId, int] = {}
        self._open = 0
        self._plain = not failures
        """Nothing of it failed or was skipped."""
        self._cancelled: Failure | None = None
        self._make(graph.steps.values())
        for variable, value in (values or {}).items():
            self.of(variable).become(value)
        for variable, failure in (failures or {}).items():
            self.of(variable).fail(failure)
        for step in _unread(graph, states or {}, self._has_all):
            for variable in self._writes(step):
                self.of(variable).become(None)
        self._take_up(graph.steps.values(), states or {})

    @property
    def values(self) -> Mapping[VariableId, Value]:
        """Return the value of every variable that is ready, but for vectors and indexes."""
        return {each.id: each.value for each in self._all() if each.value is not None}

    @property
    def skipped(self) -> AbstractSet[VariableId]:
        """Variables whose branch was not taken."""
        return {each.id for each in self._all() if each.state is VariableState.SKIPPED}

    @property
    def failures(self) -> Mapping[VariableId, Failure]:
        """Return the failure of every variable that failed or was cancelled."""
        return {each.id: each.failure for each in self._all() if each.failure and not _skipped(each)}

    def find(self, variable: VariableId) -> Variable | None:
        """A variable that a step writes, or that it was told of; None for another."""
        return self.variables.get(variable) or self.outside.get(variable)

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
        refused = any(self._states.get(step) is StepState.FAILED for step in self._gets)
        return RunState.FAILED if refused or self.why() is not None else RunState.DONE

    def why(self) -> Failure | None:
        """Return why a run failed: by what was asked for, or by all; `output_skipped` if a branch was not taken.

        None if a step without variables failed."""
        if self._cancelled is not None:
            return self._cancelled
        asked = self._asked()
        for variable, failure in self.failures.items():
            if variable in asked or not self._gets:
                return failure
        for variable in asked & self.skipped:
            name = self.graph.name(variable)
            return Failure(OUTPUT_SKIPPED, f"The branch of the output {name!r} was not taken.", (name,))
        return None

    @property
    def cancelled(self) -> bool:
        """Tell if it was cancelled: steps that are added are, too."""
        return self._cancelled is not None

    def let_go(self) -> None:
        """The run is over: nobody needs its vectors and indexes."""
        for variable in self.variables.values():
            if isinstance(variable.held, Opaque):
                variable.held = None

    def inputs(self, step: StepId) -> Mapping[str, str]:
        """The texts of a step's inputs by template name. Raises KeyError while one is missing."""
        held = self.held(step).items()
        return {name: as_text(each) for name, each in held if not isinstance(each, Opaque)}

    def held(self, step: StepId) -> Mapping[str, Held]:
        """A step's inputs by the names under which it reads them, texts of its own included. Of a step with `first` those
        that are ready; else raises KeyError while one is missing."""
        each = self.graph.steps[step]
        read = {
            name: variable
            for name, variable in each.reads.items()
            if not each.first or self.of(variable).state is VariableState.READY
        }
        return {**each.given, **{name: self._held(variable) for name, variable in read.items()}}

    # ---- events

    def begin(self) -> Changes:
        """Starts what is due; failures known from the start are passed on. Called once, before any other event."""
        changes = self._started(self._states)
        changes.ended = None if self._open else self.state
        return changes

    def added(self) -> Changes:
        """After `graph.add`: takes up the new steps."""
        new = list(islice(self.graph.steps.values(), len(self._states), None))
        self._take_up(new, {})
        return self._begun(step.id for step in new)

    def grow(self, added: Added) -> Changes:
        """After Unfolding: adds to the graph, and takes it up. Call it before anything else is told. Raises as Graph.add."""
        self.graph.add(*added.steps)
        for step, reads in added.reads:
            self.graph.read_more(step, reads)
        self._take_up(added.steps, {})
        for step, _ in added.reads:
            self._missing[step] = self._not_ended(self.graph.steps[step])
        changes = self._begun([*(step.id for step in added.steps), *(step for step, _ in added.reads)])
        for variable, value in added.values.items():
            self._write(variable, value, changes)
        return self._closed(changes)

    def running(self, step: StepId) -> Changes:
        """A queued step was asked."""
        changes = Changes()
        if self._states[step] is StepState.QUEUED:
            self._set(step, StepState.RUNNING, changes)
        return changes

    def answered(self, step: StepId, outcome: Mapping[VariableId, Held | TransformFailed]) -> Changes:
        """A step was answered; `outcome` is `outcomes(step, text)`. What a transform could not make fails alone."""
        changes = Changes()
        if self._states[step] not in _OPEN:
            return changes
        self._set(step, StepState.DONE, changes)
        for variable, made in outcome.items():
            if isinstance(made, TransformFailed):
                name = self.graph.steps[step].of or self.graph.name(variable)
                failure = Failure("transform_failed", made.message, (name,))
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

    def unknown(self, step: StepId) -> Changes:
        """Mark a step with effects that may or may not have been carried out: the run waits for `resolve`."""
        changes = Changes()
        if self._states[step] in _OPEN:
            self._set(step, StepState.UNKNOWN, changes)
        return changes

    def resolve(self, step: StepId, how: Literal["retry", "skip", "value"], value: Value = "") -> Changes:
        """Settle an unknown step: ask it again, go on without it, or with this value.

        Raises ValueError for a step that is not unknown."""
        if self._states[step] is not StepState.UNKNOWN:
            raise ValueError(f"step {step} is {self._states[step]}, not unknown")
        changes = Changes()
        match how:
            case "retry":
                self._queue(step, changes)
            case "skip":
                return self.leave_out(step)
            case "value":
                return self.answered(step, dict.fromkeys(self._writes(step), value))
        return self._closed(changes)

    def leave_out(self, step: StepId) -> Changes:
        """A step is skipped, as if its branch was not taken."""
        changes = Changes()
        if self._states[step] in _OPEN:
            self._follow(self._skip(self.graph.steps[step], changes), changes)
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

    # ---- inside

    def _writes(self, step: StepId) -> Iterable[VariableId]:
        return self.graph.steps[step].writes.values()

    def _asked(self) -> set[VariableId]:
        """The variables of this graph that somebody asked for."""
        asked = self._gets.keys() & self.graph.variables
        return asked | {
            variable for step in self._gets if step in self._states for variable in self._writes(step)
        }

    def _all(self) -> Iterable[Variable]:
        return (*self.variables.values(), *self.outside.values())

    def of(self, variable: VariableId) -> Variable:
        """A variable; one from outside that it was not told of yet is pending."""
        found = self.find(variable)
        if found is None:
            found = self.outside[variable] = Variable(variable, self.graph.name(variable))
        return found

    def _held(self, variable: VariableId) -> Held:
        """Raises KeyError for one without a value."""
        found = self.find(variable)
        if found is None or found.held is None:
            raise KeyError(variable)
        return found.held

    def _is_over(self, variable: VariableId) -> bool:
        found = self.find(variable)
        return found is not None and found.ended

    def _not_ended(self, step: Step) -> int:
        return sum(not self._is_over(variable) for variable in step.inputs)

    def _make(self, steps: Iterable[Step]) -> None:
        for step in steps:
            for name, variable in step.writes.items():
                if variable not in self.variables:
                    self.variables[variable] = self._made(variable, name)

    def _take_up(self, steps: Iterable[Step], states: Mapping[StepId, StepState]) -> None:
        """Steps of the graph that are not known yet; producers before those that read of them."""
        self._make(steps)
        for step in steps:
            said = states.get(step.id, StepState.WAITING)
            if said is StepState.SKIPPED:
                self._note_skipped(step)
            if said in _ASKED or not (said in _OPEN or self._has_all(step)):
                said = StepState.WAITING
            self._states[step.id] = said
            self._note_care(step)
            self._open += said in _OPEN
        for step in steps:
            # Only now is it known what was skipped.
            self._missing[step.id] = self._not_ended(step)

    def _note_care(self, step: Step) -> None:
        """Note if a step may be skipped, and if it needs more than that its inputs ended."""
        among = [variable in self._may_skip for variable in step.reads.values()] if self._may_skip else []
        skippable = step.condition is not None or (bool(among) and (all(among) if step.first else any(among)))
        if skippable:
            self._may_skip.update(step.writes.values())
        alone = step.primitive not in ("gather", "first_of", "merge")
        if skippable or step.after or step.waits or not alone or any(among):
            self._careful.add(step.id)

    def _has_all(self, step: Step) -> bool:
        """Tell if all variables that a step writes have ended."""
        return all(map(self._is_over, step.writes.values()))

    def _begun(self, new: Iterable[StepId]) -> Changes:
        """Starts what is due of steps that were added; cancels them where the run was."""
        if self._cancelled is None:
            return self._started(new)
        changes = Changes()
        self._end_steps(new, StepState.CANCELLED, self._cancelled, changes)
        return self._closed(changes)

    def _started(self, steps: Iterable[StepId]) -> Changes:
        changes = Changes()
        for id in list(steps):
            if self._states[id] is not StepState.WAITING:
                continue
            if not self._plain or id in self._careful:
                self._follow(self._decide(self.graph.steps[id], changes), changes)
            elif not self._missing[id]:
                self._queue(id, changes)
        return self._closed(changes)

    def _set(self, step: StepId, state: StepState, changes: Changes) -> None:
        self._open += (state in _OPEN) - (self._states[step] in _OPEN)
        self._states[step] = changes.steps[step] = state

    def _queue(self, step: StepId, changes: Changes) -> None:
        self._set(step, StepState.QUEUED, changes)
        changes.start.append(step)

    def _write(self, variable: VariableId, value: Held, changes: Changes) -> None:
        found = self.of(variable)
        if not found.ended:
            found.become(value)
            changes.variables[variable] = found
            self._follow([variable], changes)

    def _fail(self, variable: VariableId, failure: Failure, changes: Changes) -> None:
        if self._lose(variable, failure, changes):
            self._follow([variable], changes)
            producer = self.graph.producer(variable)
            if producer is not None:
                self._drop(producer.id, changes)

    def _lose(self, variable: VariableId, failure: Failure, changes: Changes) -> bool:
        """Fail a variable that had not ended; tell if it had not."""
        found = self.of(variable)
        if found.ended:
            return False
        self._plain = False
        found.fail(failure)
        changes.variables[variable] = found
        return True

    def _follow(self, ended: Iterable[VariableId], changes: Changes) -> None:
        """Tells whoever waits for variables that ended, breadth first: of failures the shortest chain is told."""
        left = deque(ended)
        while left:
            variable = left.popleft()
            for step in self.graph.consumers(variable):
                if self._states[step.id] is StepState.WAITING:
                    self._missing[step.id] -= 1
                    left.extend(self._heard(step, variable, changes))

    def _heard(self, step: Step, variable: VariableId, changes: Changes) -> Sequence[VariableId]:
        """Return what ended with a waiting step, of which an input ended."""
        last = not self._missing[step.id]
        if self.of(variable).state is VariableState.READY:
            if step.id not in self._careful:
                if last:
                    self._queue(step.id, changes)
                return ()
            told = step.first or (step.condition is not None and step.condition[0] == variable)
            return self._decide(step, changes) if last or told or step.id in self._failing else ()
        return self._decide(step, changes)

    def _decide(self, step: Step, changes: Changes) -> Sequence[VariableId]:
        """Starts, skips or fails a waiting step, if it is known which; gives its variables that ended with it."""
        read = self._read(step)
        if read.skips:
            return self._skip(step, changes)
        if read.lost is not None:
            if read.pending and (self._may_yet_skip(step) or (read.own and read.needs)):
                self._failing.add(step.id)
                return ()
            return self._inherit(step, read.lost, read.of, changes)
        if not read.pending and not step.open:
            self._queue(step.id, changes)
        return ()

    def _may_yet_skip(self, step: Step) -> bool:
        """Tell if a step of which an input has failed may be skipped all the same."""
        return step.condition is not None or (
            not step.first and any(variable in self._may_skip for variable in step.reads.values())
        )

    def _read(self, step: Step) -> _Read:
        """Read the state of a step's inputs.

        So that nothing depends on what ended first, being skipped goes before failing, and the failure of what a gather's
        step works on before that of a piece of its own."""
        found = _Read()
        if step.condition is not None:
            variable, wanted = step.condition
            said = self.of(variable).value
            self._look(variable, found, skips=True)
            found.skips |= said is not None and said != wanted
        if step.first:
            self._look_first(step, found)
        else:
            gathers = step.primitive == "gather"
            for variable in step.reads.values():
                self._look(variable, found, skips=True, own=gathers and self._is_part(variable, step))
        for variable in step.after:
            self._look(variable, found)
        found.pending |= not all(map(self._is_over, step.waits))
        return found

    def _is_part(self, variable: VariableId, step: Step) -> bool:
        """Tell if a variable is a piece of the same step of the definition."""
        producer = self.graph.producer(variable)
        return producer is not None and producer.of == step.of

    def _look(self, variable: VariableId, found: _Read, *, skips: bool = False, own: bool = False) -> None:
        looked = self.of(variable)
        if looked.state is VariableState.READY:
            return
        if _skipped(looked):
            found.skips |= skips
        elif looked.failure is None:
            found.pending = True
            found.needs |= not own
        elif found.lost is None or (own, looked.failure.code == CANCELLED) < (
            found.own,
            found.lost.code == CANCELLED,
        ):
            found.lost, found.of, found.own = looked.failure, variable, own

    def _look_first(self, step: Step, found: _Read) -> None:
        """The inputs of a step that skipped inputs do not skip, unless all are."""
        left = [variable for variable in step.reads.values() if not _skipped(self.of(variable))]
        found.skips |= not left
        for variable in left[:1] if step.primitive == "first_of" else left:
            self._look(variable, found)

    def _skip(self, step: Step, changes: Changes) -> list[VariableId]:
        self._set(step.id, StepState.SKIPPED, changes)
        skipped = self._note_skipped(step)
        changes.variables |= skipped
        return list(skipped)

    def _note_skipped(self, step: Step) -> dict[VariableId, Variable]:
        self._plain = False
        skipped = {each: self.of(each) for each in step.writes.values() if not self._is_over(each)}
        for each in skipped.values():
            each.skip()
        return skipped

    def _inherit(self, step: Step, cause: Failure, of: VariableId, changes: Changes) -> list[VariableId]:
        """Fails a step of which an input has failed. Between parts of one declared step a failure stays what it is."""
        producer = self.graph.producer(of)
        cancelled = cause.code == CANCELLED
        self._set(step.id, StepState.CANCELLED if cancelled else StepState.FAILED, changes)
        if step.of and producer is not None and producer.of == step.of:
            return self._fail_all(step, replace(cause, chain=cause.chain[1:]), changes)
        return self._fail_all(step, cause, changes)

    def _fail_all(self, step: Step, failure: Failure, changes: Changes) -> list[VariableId]:
        """Fails a step's variables, each under its own name; those that were not written yet."""
        failed = [
            variable
            for name, variable in step.writes.items()
            if self._lose(variable, replace(failure, chain=(step.of or name, *failure.chain)), changes)
        ]
        self._drop(step.id, changes)
        return failed

    def _drop(self, source: StepId, changes: Changes) -> None:
        """Cancel the steps that items of a failed list started, and drop their results.

        Nothing else reads these results: what gathers the list waits until it is whole."""
        for id in self.graph.early(source):
            if self._states[id] in _ASKED:
                changes.stop.append(id)
            self._set(id, StepState.CANCELLED, changes)
            changes.dropped.append(id)
            for variable in map(self.of, self._writes(id)):
                variable.fail(Failure(CANCELLED, "Its list failed.", (variable.name,)))

    def _end_steps(
        self, steps: Iterable[StepId], state: StepState, failure: Failure, changes: Changes
    ) -> None:
        ended = [step for step in steps if self._states[step] in _OPEN]
        if state is StepState.CANCELLED:
            changes.stop += [step for step in ended if self._states[step] in _ASKED]
        for step in ended:
            self._set(step, state, changes)
        for step in ended:
            self._follow(self._fail_all(self.graph.steps[step], failure, changes), changes)

    def _closed(self, changes: Changes) -> Changes:
        if changes.steps and not self._open:
            changes.ended = self.state
        return changes


@dataclass(slots=True)
class _Read:
    """The state of a step's inputs."""

    skips: bool = False
    lost: Failure | None = None
    """The failure of one that failed, and which that is."""
    of: VariableId = ""
    own: bool = False
    """True if that is a piece of the same step."""
    pending: bool = False
    needs: bool = False
    """True if what is pending is more than pieces of the same step."""


def _skipped(variable: Variable) -> bool:
    return variable.state is VariableState.SKIPPED


def _unread(
    graph: Graph, states: Mapping[StepId, StepState], has_all: Callable[[Step], bool]
) -> AbstractSet[StepId]:
    """Steps that made vectors or indexes, and whose readers have all ended: they need not run again.

    `has_all`: whether all variables of a step have ended. What the run grows by later reads none of theirs: an index that a
    piece reads, its step's gather reads, too; and vectors come together with the piece that reads them.
    """
    if not any(_makes_opaque(step) for step in graph.steps.values()):
        return frozenset()
    found: set[StepId] = set()
    ended: set[StepId] = set()
    for id in reversed(graph.order()):
        step, state = graph.steps[id], states.get(id, StepState.WAITING)
        if state is StepState.DONE and _makes_opaque(step):
            if all(reader in ended for reader in _readers(graph, step)):
                found.add(id)
                ended.add(id)
        elif state is StepState.SKIPPED or (state not in _OPEN and has_all(step)):
            ended.add(id)
    return found


def _readers(graph: Graph, step: Step) -> Iterable[StepId]:
    """The steps that read what a step made; not those that only wait for it."""
    for variable in step.writes.values():
        for each in graph.consumers(variable):
            if variable in each.reads.values():
                yield each.id


def _makes_opaque(step: Step) -> bool:
    return step.primitive in ("embed", "ingest") or step.what.get("how") in ("vectors", "index")


def effort(step: Step, text: str) -> int:
    """Return the cost of `outcomes` at worst, in characters read."""
    read = sum(transforms_effort(output.transforms, text) for output in step.outputs)
    return read + len(text) if "splits" in step.what else read


def outcomes(step: Step, text: str, max_value_bytes: int) -> Mapping[VariableId, Value | TransformFailed]:
    """Make each of a step's variables from its answer; a value longer than `max_value_bytes` in UTF-8 fails.

    Costs `effort`: much of it belongs off the event loop.
    """
    made: dict[VariableId, Value | TransformFailed] = {}
    for output in step.outputs:
        try:
            value: Value = text
            if (how := step.what.get("splits")) is not None:
                value = split(Splits(**how), text, step.what.get("max_items"))
            made[step.writes[output.name]] = bounded(apply(output.transforms, value), max_value_bytes)
        except TransformFailed as failure:
            made[step.writes[output.name]] = failure
    return made
