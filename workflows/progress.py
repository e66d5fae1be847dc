"""One run's state, as events change it: which steps may start, what fails with what, when it has ended.

No waiting and no I/O: the gateway's executor tells what happened and does what it is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a variable has no value."""

    code: str
    """Of the first failure: `step_failed`, `transform_failed`, `cancelled`, `budget_exceeded`, what refused the step, …"""
    message: str
    """Of the same; it never holds a value."""
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
OUTPUT_SKIPPED = "output_skipped"
"""The code of a run whose output's branch was not taken."""
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
    ) -> None:
        """`values`, `failures` and `states` are what is known of a run that another process began.

        A step that was queued or running there waits anew, and so does one that is said to have ended while one of its
        variables has neither a value nor a failure: but for one that made vectors or an index which nothing reads any more.
        Its variable is ready, without a value: what only waits for it may start.
        """
        self.graph = graph
        self._values = dict(values or {})
        self._failures = dict(failures or {})
        self._gets = dict(gets or {})
        self._opaque: dict[VariableId, Opaque] = {}
        self._gone: set[VariableId] = set()
        """Vectors and indexes that were made, and that nothing reads any more: ready, without a value."""
        self._skipped: set[VariableId] = set()
        self._over = {*self._values, *self._failures}
        """Variables that are ready, skipped or failed."""
        self._may_skip: set[VariableId] = set()
        """Variables of steps that have a condition, or read such: what reads them fails only once it cannot be skipped."""
        self._careful: set[StepId] = set()
        """Steps for which it is not enough that all their inputs ended."""
        self._failing: set[StepId] = set()
        """Steps of which an input failed, and which wait to know whether it is for that."""
        self._streaming: set[VariableId] = set()
        self._states: dict[StepId, StepState] = {}
        self._missing: dict[StepId, int] = {}
        self._open = 0
        self._cancelled: Failure | None = None
        unread = _unread(graph, states or {}, self._over)
        self._gone = {variable for step in unread for variable in self._writes(step)}
        self._over |= self._gone
        self._take_up(graph.steps.values(), states or {})

    @property
    def values(self) -> Mapping[VariableId, Value]:
        """Of every variable that is ready, but for opaque ones."""
        return MappingProxyType(self._values)

    @property
    def skipped(self) -> AbstractSet[VariableId]:
        """Variables whose branch was not taken."""
        return self._skipped

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
        asked = self._asked()
        failed = asked & self._failures.keys() if self._gets else self._failures.keys()
        refused = any(self._states.get(step) is StepState.FAILED for step in self._gets)
        return RunState.FAILED if failed or refused or asked & self._skipped else RunState.DONE

    def why(self) -> Failure | None:
        """Of a run that failed: the failure of what was asked for, or of all; `output_skipped` where a branch was not taken.

        None where a step without variables failed."""
        if self._cancelled is not None:
            return self._cancelled
        asked = self._asked()
        for variable, failure in self._failures.items():
            if variable in asked or not self._gets:
                return failure
        for variable in asked & self._skipped:
            name = self.graph.name(variable)
            return Failure(OUTPUT_SKIPPED, f"The branch of the output {name!r} was not taken.", (name,))
        return None

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled: steps that are added are, too."""
        return self._cancelled is not None

    def let_go(self) -> None:
        """The run is over: nobody needs its vectors and indexes."""
        self._gone |= self._opaque.keys()
        self._opaque.clear()

    def variable(self, variable: VariableId) -> VariableState:
        """A variable's state."""
        if self._is_ready(variable):
            return VariableState.READY
        if variable in self._skipped:
            return VariableState.SKIPPED
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

    def held(self, step: StepId) -> Mapping[str, Held]:
        """A step's inputs by the names under which it reads them, texts of its own included. Of a step with `first` those
        that are ready; else raises KeyError while one is missing."""
        each = self.graph.steps[step]
        read = each.reads.items()
        if each.first:
            read = {name: variable for name, variable in read if self._is_ready(variable)}.items()
        return {**each.given, **{name: self._held(variable) for name, variable in read}}

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

    def streaming(self, variable: VariableId) -> bool:
        """A piece of a variable came. Whether it was the first."""
        first = self.variable(variable) is VariableState.PENDING
        if first:
            self._streaming.add(variable)
        return first

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
        """Whether a step with effects was carried out cannot be known: the run waits for `resolve`."""
        changes = Changes()
        if self._states[step] in _OPEN:
            self._set(step, StepState.UNKNOWN, changes)
        return changes

    def resolve(self, step: StepId, how: Literal["retry", "skip", "value"], value: Value = "") -> Changes:
        """What became of an unknown step: ask it again, go on without it, or with this value.

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

    def _held(self, variable: VariableId) -> Held:
        opaque = self._opaque.get(variable)
        return self._values[variable] if opaque is None else opaque

    def _is_ready(self, variable: VariableId) -> bool:
        return variable in self._values or variable in self._opaque or variable in self._gone

    def _not_ended(self, step: Step) -> int:
        return len(step.inputs.keys() - self._over)

    def _take_up(self, steps: Iterable[Step], states: Mapping[StepId, StepState]) -> None:
        """Steps of the graph that are not known yet; producers before those that read of them."""
        for step in steps:
            said = states.get(step.id, StepState.WAITING)
            if said is StepState.SKIPPED:
                self._note_skipped(step)
            ended = _has_ended(step, said, self._over)
            self._states[step.id] = said if ended and said not in _OPEN else self._implied(step, ended)
            if said is StepState.UNKNOWN and not ended:
                self._states[step.id] = said
            self._note_care(step)
            self._open += not ended
        for step in steps:
            # Only now is it known what was skipped.
            self._missing[step.id] = self._not_ended(step)

    def _note_care(self, step: Step) -> None:
        """Whether a step may be skipped, and whether it is one for which it is not enough that its inputs ended."""
        among = [variable in self._may_skip for variable in step.reads.values()] if self._may_skip else []
        skippable = step.condition is not None or (bool(among) and (all(among) if step.first else any(among)))
        if skippable:
            self._may_skip.update(step.writes.values())
        alone = step.primitive not in ("gather", "first_of", "merge")
        if skippable or step.after or step.waits or not alone or any(among):
            self._careful.add(step.id)

    def _implied(self, step: Step, ended: bool) -> StepState:
        """The state of a step of which only its variables are known."""
        if not ended:
            return StepState.WAITING
        wrote = any(variable in self._values for variable in step.writes.values())
        return StepState.DONE if wrote else StepState.FAILED

    def _begun(self, new: Iterable[StepId]) -> Changes:
        """Starts what is due of steps that were added; cancels them where the run was."""
        if self._cancelled is None:
            return self._started(new)
        changes = Changes()
        self._end_steps(new, StepState.CANCELLED, self._cancelled, changes)
        return self._closed(changes)

    def _started(self, steps: Iterable[StepId]) -> Changes:
        changes = Changes()
        plain = not self._failures and not self._skipped
        for id in list(steps):
            if self._states[id] is not StepState.WAITING:
                continue
            if not plain or id in self._careful:
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
        if variable in self._over:
            return
        self._over.add(variable)
        if isinstance(value, Opaque):
            self._opaque[variable] = changes.opaque[variable] = value
        else:
            self._values[variable] = changes.ready[variable] = value
        self._streaming.discard(variable)
        self._follow([variable], changes)

    def _fail(self, variable: VariableId, failure: Failure, changes: Changes) -> None:
        if variable in self._over:
            return
        self._over.add(variable)
        self._failures[variable] = changes.failed[variable] = failure
        self._streaming.discard(variable)
        self._follow([variable], changes)
        producer = self.graph.producer(variable)
        if producer is not None:
            self._drop(producer.id, changes)

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
        """What ended with a waiting step, of which an input ended."""
        last = not self._missing[step.id]
        if self._is_ready(variable):
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
            return self._inherit(step, read.lost, changes)
        if not read.pending and not step.open:
            self._queue(step.id, changes)
        return ()

    def _may_yet_skip(self, step: Step) -> bool:
        """Whether a step of which an input has failed may be skipped all the same."""
        return step.condition is not None or (
            not step.first and any(variable in self._may_skip for variable in step.reads.values())
        )

    def _read(self, step: Step) -> _Read:
        """Where a step's inputs stand.

        So that nothing depends on what ended first, being skipped goes before failing, and the failure of what a gather's
        step works on before that of a piece of its own."""
        found = _Read()
        if step.condition is not None:
            variable, wanted = step.condition
            taken = self._values.get(variable, wanted) == wanted
            self._look(variable, found, skips=True)
            found.skips |= not taken
        if step.first:
            self._look_first(step, found)
        else:
            gathers = step.primitive == "gather"
            for variable in step.reads.values():
                self._look(variable, found, skips=True, own=gathers and self._is_part(variable, step))
        for variable in step.after:
            self._look(variable, found)
        found.pending |= not self._over.issuperset(step.waits)
        return found

    def _is_part(self, variable: VariableId, step: Step) -> bool:
        """Whether a variable is a piece of the same step of the definition."""
        producer = self.graph.producer(variable)
        return producer is not None and producer.of == step.of

    def _look(self, variable: VariableId, found: _Read, *, skips: bool = False, own: bool = False) -> None:
        if self._is_ready(variable):
            return
        if variable in self._skipped:
            found.skips |= skips
        elif (failure := self._failures.get(variable)) is None:
            found.pending = True
            found.needs |= not own
        elif found.lost is None or (own, failure.code == CANCELLED) < (
            found.own,
            self._failures[found.lost].code == CANCELLED,
        ):
            found.lost, found.own = variable, own

    def _look_first(self, step: Step, found: _Read) -> None:
        """The inputs of a step that skipped inputs do not skip, unless all are."""
        left = [variable for variable in step.reads.values() if variable not in self._skipped]
        found.skips |= not left
        for variable in left[:1] if step.primitive == "first_of" else left:
            self._look(variable, found)

    def _skip(self, step: Step, changes: Changes) -> list[VariableId]:
        self._set(step.id, StepState.SKIPPED, changes)
        skipped = self._note_skipped(step)
        changes.skipped += skipped
        return skipped

    def _note_skipped(self, step: Step) -> list[VariableId]:
        skipped = [variable for variable in step.writes.values() if variable not in self._over]
        self._skipped.update(skipped)
        self._over.update(skipped)
        return skipped

    def _inherit(self, step: Step, lost: VariableId, changes: Changes) -> list[VariableId]:
        """Fails a step of which an input has failed. Between parts of one declared step a failure stays what it is."""
        cause = self._failures[lost]
        producer = self.graph.producer(lost)
        cancelled = cause.code == CANCELLED
        self._set(step.id, StepState.CANCELLED if cancelled else StepState.FAILED, changes)
        if step.of and producer is not None and producer.of == step.of:
            return self._fail_all(step, replace(cause, chain=cause.chain[1:]), changes)
        return self._fail_all(step, cause, changes)

    def _fail_all(self, step: Step, failure: Failure, changes: Changes) -> list[VariableId]:
        """Fails a step's variables, each under its own name; those that were not written yet."""
        failed = []
        for name, variable in step.writes.items():
            if variable not in self._over:
                self._over.add(variable)
                named = replace(failure, chain=(step.of or name, *failure.chain))
                self._failures[variable] = changes.failed[variable] = named
                self._streaming.discard(variable)
                failed.append(variable)
        self._drop(step.id, changes)
        return failed

    def _drop(self, source: StepId, changes: Changes) -> None:
        """A list failed of which items were told: what they started is cancelled, and what that made is forgotten.

        Nothing but such steps reads of them: what gathers them learns of them when the list is whole."""
        for id in self.graph.early(source):
            if self._states[id] in _ASKED:
                changes.stop.append(id)
            self._set(id, StepState.CANCELLED, changes)
            changes.dropped.append(id)
            for variable in self._writes(id):
                self._values.pop(variable, None)
                self._opaque.pop(variable, None)
                self._skipped.discard(variable)
                self._over.add(variable)
                self._failures[variable] = Failure(
                    CANCELLED, "Its list failed.", (self.graph.name(variable),)
                )

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
    """Where the inputs of a step stand."""

    skips: bool = False
    lost: VariableId | None = None
    """One that failed."""
    own: bool = False
    """Whether that is a piece of the same step."""
    pending: bool = False
    needs: bool = False
    """Whether what is pending is more than pieces of the same step."""


def _unread(graph: Graph, states: Mapping[StepId, StepState], over: set[VariableId]) -> AbstractSet[StepId]:
    """Steps that made vectors or indexes, and whose readers have all ended: they need not run again.

    `over`: variables with a value, or a failure. What the run grows by later reads none of theirs: an index that a piece
    reads, its step's gather reads, too; and vectors come together with the piece that reads them.
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
        elif state is StepState.SKIPPED or _has_ended(step, state, over):
            ended.add(id)
    return found


def _has_ended(step: Step, said: StepState, over: set[VariableId]) -> bool:
    """Whether a step has, of which another process said so much, and of whose variables these are over."""
    written = all(variable in over for variable in step.writes.values())
    return written and (said not in _OPEN or bool(step.writes))


def _readers(graph: Graph, step: Step) -> Iterable[StepId]:
    """The steps that read what a step made; not those that only wait for it."""
    for variable in step.writes.values():
        for each in graph.consumers(variable):
            if variable in each.reads.values():
                yield each.id


def _makes_opaque(step: Step) -> bool:
    return step.primitive in ("embed", "ingest") or step.what.get("how") in ("vectors", "index")


def effort(step: Step, text: str) -> int:
    """What `outcomes` costs at worst, in characters read."""
    read = sum(transforms_effort(output.transforms, text) for output in step.outputs)
    return read + len(text) if "splits" in step.what else read


def outcomes(step: Step, text: str, max_value_bytes: int) -> Mapping[VariableId, Value | TransformFailed]:
    """What a step's answer makes of each of its variables; a value longer than `max_value_bytes` in UTF-8 fails.

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
