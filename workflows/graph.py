"""Steps joined by write-once variables: a directed graph without cycles that grows call by call or comes at once."""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter

from workflows.definition import Output
from workflows.errors import WorkflowError, refuse_circle
from workflows.names import StepId, VariableId


@dataclass(frozen=True, slots=True)
class Step:
    """One primitive of a run: a chat call, or one of a declared workflow's."""

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
    """The outputs made of its answer; one per entry of `writes`."""
    primitive: str = "chat"
    """`chat`, `tool`, `split`, `embed`, `ingest`, `search`, `rerank`, `when`, `first_of`, `merge`, `transform`, `gather`."""
    what: Mapping[str, Any] = field(default_factory=dict)
    """All that the primitive needs but values, as JSON; workflows.unfolding says what, by primitive."""
    after: tuple[VariableId, ...] = ()
    """Variables that must be ready, or skipped, before it starts."""
    waits: tuple[VariableId, ...] = ()
    """Variables that must have ended, however."""
    condition: tuple[VariableId, str] | None = None
    """(a variable, the text it must have); with any other it is skipped."""
    first: bool = False
    """Skipped inputs do not skip it, unless all are. `first_of` starts with the first in order that is not skipped."""
    early: StepId | None = None
    """The chat on whose items it runs before that chat's end; it is dropped where that fails."""
    open: bool = False
    """It does not know all it reads yet: it starts after `Graph.read_more`."""
    effects: bool = False
    """It is never asked twice."""
    of: str = ""
    """The step of the definition that it is a part of; "" where it is all of it and has names of its own."""
    says: VariableId | None = None
    """A variable of another step that will have the same text: its pieces go there, too, as they come."""
    depth: int = 0
    """For a declared workflow's: primitives from here to the farthest end, for batching by depth."""

    @property
    def inputs(self) -> dict[VariableId, None]:
        """Every variable that it reads or waits for, each once."""
        if not (self.after or self.waits or self.condition):
            return dict.fromkeys(self.reads.values())
        more = () if self.condition is None else self.condition[:1]
        return dict.fromkeys((*more, *self.reads.values(), *self.after, *self.waits))


class Graph:
    """The steps of one run. A variable has one producer, or none here: then its value comes from outside.

    What is derived from the whole graph (order, depths, feeders) is kept, and grows with steps that nothing there waits for.
    Other additions have it worked out anew: with a thousand steps, a few milliseconds each time.
    """

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        """Raises as `add` does."""
        self._steps: dict[StepId, Step] = {}
        self._producer: dict[VariableId, StepId] = {}
        self._consumers: dict[VariableId, list[StepId]] = {}
        self._early: dict[StepId, list[StepId]] = {}
        self._names: dict[VariableId, str] = {}
        self._derived: _Derived | None = None
        self.add(*steps)

    def add(self, *steps: Step) -> None:
        """Adds steps, in any order, all or none.

        Raises WorkflowError: `duplicate_output` (a variable has two producers, or a step's id is taken), `cycle` (its names
        are listed).
        """
        written: dict[VariableId, str] = {}
        for step in steps:
            for name, variable in step.writes.items():
                if variable in self._producer or variable in written:
                    raise WorkflowError(
                        f"{name!r} is written twice: a variable is written once.", code="duplicate_output"
                    )
                written[variable] = name
        if len({step.id for step in steps if step.id not in self._steps}) < len(steps):
            raise WorkflowError("A step's id is taken.", code="duplicate_output")
        leaves = not any(variable in self._consumers for variable in written)
        self._refuse_cycle(steps, written, leaves)
        for step in steps:
            self._take(step)
        if self._derived is not None and leaves:
            self._derived.extend({step.id: self.before(step.id) for step in steps})
        elif steps:
            self._derived = None

    def read_more(self, step: StepId, reads: Mapping[str, VariableId]) -> None:
        """An open step learns all else it reads, and is open no longer. Progress.grow tells the progress.

        Whoever adds it makes sure that none of this waits for the step.
        """
        known = self._steps[step]
        self._steps[step] = replace(known, reads={**known.reads, **reads}, open=False)
        for name, variable in reads.items():
            readers = self._consumers.setdefault(variable, [])
            if step not in readers:
                readers.append(step)
            self._names.setdefault(variable, name)
        self._derived = None

    @property
    def steps(self) -> Mapping[StepId, Step]:
        """All steps, in the order they were added."""
        return MappingProxyType(self._steps)

    @property
    def variables(self) -> AbstractSet[VariableId]:
        """All variables that a step writes or reads."""
        return self._names.keys()

    def producer(self, variable: VariableId) -> Step | None:
        """The step that writes a variable; None if its value comes from outside."""
        step = self._producer.get(variable)
        return None if step is None else self._steps[step]

    def consumers(self, variable: VariableId) -> tuple[Step, ...]:
        """The steps that read a variable, or wait for its end."""
        return tuple(self._steps[step] for step in self._consumers.get(variable, ()))

    def name(self, variable: VariableId) -> str:
        """The name under which a variable is written, else read; its id if nobody here knows it."""
        return self._names.get(variable, variable)

    def before(self, step: StepId) -> frozenset[StepId]:
        """The steps whose variables it reads or waits for, and the one on whose items it runs."""
        known = self._steps[step]
        found = [self._producer[variable] for variable in known.inputs if variable in self._producer]
        return frozenset(found if known.early is None else (*found, known.early))

    def after(self, step: StepId) -> frozenset[StepId]:
        """The steps that read its variables, or wait for them, and those that run on its items."""
        writes = self._steps[step].writes.values()
        found = [each for variable in writes for each in self._consumers.get(variable, ())]
        return frozenset((*found, *self._early.get(step, ())))

    def early(self, step: StepId) -> tuple[StepId, ...]:
        """The steps that run on the items of a step before its end, directly or through others."""
        return tuple(self._early.get(step, ()))

    def feeders(self, step: StepId) -> frozenset[StepId]:
        """`before` without those that another of them needs, too: the steps that run just before it."""
        return self._known().feeders[step]

    def last_of(self, steps: Iterable[StepId]) -> frozenset[StepId]:
        """Those of some steps that no other of them waits for, directly or through others."""
        known = self._known()
        several = frozenset(steps)
        above = 0
        for step in several:
            above |= known.ancestors[step]
        return frozenset(step for step in several if not above >> known.position[step] & 1)

    def depth(self, step: StepId) -> int:
        """Steps on the longest way to it: 0 for one that waits for no other."""
        return self._known().depth[step]

    def order(self) -> tuple[StepId, ...]:
        """All steps, each after those it reads from."""
        return tuple(self._known().order)

    def critical_path(self, weight: Callable[[StepId], float]) -> tuple[StepId, ...]:
        """The heaviest way through the graph, first step first; () without steps. Weights are zero or more."""
        total: dict[StepId, float] = {}
        via: dict[StepId, StepId | None] = {}
        for step in self.order():
            via[step] = max(self.feeders(step), key=lambda each: (total[each], each), default=None)
            before = via[step]
            total[step] = weight(step) + (0.0 if before is None else total[before])
        path: list[StepId] = []
        step_or_none = max(total, key=total.__getitem__, default=None)
        while step_or_none is not None:
            path.append(step_or_none)
            step_or_none = via[step_or_none]
        return tuple(reversed(path))

    def _take(self, step: Step) -> None:
        self._steps[step.id] = step
        for name, variable in step.writes.items():
            self._producer[variable] = step.id
            self._names[variable] = name
        for variable in step.inputs:
            self._consumers.setdefault(variable, []).append(step.id)
        for name, variable in step.reads.items():
            self._names.setdefault(variable, name)
        if step.early is not None:
            self._early.setdefault(step.early, []).append(step.id)

    def _refuse_cycle(self, steps: Iterable[Step], written: Mapping[VariableId, str], leaves: bool) -> None:
        """A new circle goes through a variable that is written now and read by a step of before, or of now.

        `leaves`: no step of before reads any; then it is among the new ones.
        """
        if leaves and not any(variable in written for step in steps for variable in step.inputs):
            return
        everything = [*steps] if leaves else [*self._steps.values(), *steps]
        before = {variable: step.inputs for step in everything for variable in step.writes.values()}
        refuse_circle(before, {**self._names, **written})

    def _known(self) -> _Derived:
        if self._derived is None:
            self._derived = _Derived()
            self._derived.extend({step: self.before(step) for step in self._steps})
        return self._derived


class _Derived:
    """The facts that follow from all edges. Grows at its end."""

    __slots__ = ("ancestors", "depth", "feeders", "order", "position")

    def __init__(self) -> None:
        self.order: list[StepId] = []
        self.position: dict[StepId, int] = {}
        self.ancestors: dict[StepId, int] = {}
        """Bit i is set for the step at position i of `order`."""
        self.depth: dict[StepId, int] = {}
        self.feeders: dict[StepId, frozenset[StepId]] = {}

    def extend(self, before: Mapping[StepId, frozenset[StepId]]) -> None:
        """Steps that none of those here waits for, with what each waits for, here or among the new."""
        position, ancestors, depth = self.position, self.ancestors, self.depth
        for step in graphlib.TopologicalSorter(before).static_order():
            if step in position:
                continue
            position[step] = len(self.order)
            self.order.append(step)
            above = 0
            for each in before[step]:
                above |= ancestors[each]
            self.feeders[step] = frozenset(each for each in before[step] if not above >> position[each] & 1)
            for each in before[step]:
                above |= 1 << position[each]
            ancestors[step] = above
            depth[step] = max((depth[each] + 1 for each in before[step]), default=0)


_STEP = TypeAdapter(Step)
_DEFAULTS = {each.name: each.default for each in fields(Step)}


def dumped(step: Step) -> dict[str, Any]:
    """A step as JSON values, without what says nothing."""
    kept = {name: getattr(step, name) for name in _DEFAULTS}
    kept["outputs"] = [asdict(output) for output in step.outputs]
    return {name: value for name, value in kept.items() if value != _DEFAULTS[name]}


def loaded(kept: Mapping[str, Any]) -> Step:
    """The step that `dumped` was made of. Raises ValueError for anything else."""
    if "texts" in kept:
        # As version 0.1.0 stored it: a graph of one step, whose texts stood apart.
        (kept,), texts = kept["steps"], kept["texts"]
        kept = {**kept, "given": {name: texts[index] for name, index in kept["given"].items()}}
    return _STEP.validate_python(kept)
