"""One run that this process carries out: how far it is, who waits for what, and what of it is not committed yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import orjson

from store.workflows.records import (
    Failure,
    NewRun,
    NewStep,
    NewVariable,
    Run,
    RunBudget,
    RunChange,
    RunEnd,
    StepProgress,
    VariableEnd,
)
from workflows.graph import Graph, Step, dumped
from workflows.names import StepId, VariableId
from workflows.objective import Objectives
from workflows.progress import Changes, Progress, RunState, VariableState
from workflows.progress import Failure as WhyFailed
from workflows.running.cell import Cell
from workflows.running.door import Caller
from workflows.running.workflow import Flow, Used
from workflows.transform import Value

MAX_ATTEMPTS = 2
"""The number of times one step is asked at most: once more if the process died that had asked."""
MAX_COMPUTED = 10
"""The number of times a step that does nothing but compute is begun at most. It begins anew with each process that dies:
that may be none of its doing, but a step of which processes die must not end them all."""


@dataclass(slots=True)
class Spent:
    """The amounts that a run has used, and that its steps under way have set aside."""

    usd: float = 0.0
    tokens: int = 0
    _held: list[tuple[float, int]] = field(default_factory=list)
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def held(self, budget: RunBudget, of_step: Callable[[], tuple[float, int]]) -> AsyncIterator[None]:
        """Have what a step may take (dollars, tokens) set aside while it is asked, once the budget has room for it beside
        the others. One that is alone is not kept waiting: so the budget is passed by one step at most."""
        if budget.usd is None and budget.tokens is None:
            yield
            return
        most = of_step()
        while self._held and not self._has_room(budget, most):
            self._freed.clear()
            await self._freed.wait()
        self._held.append(most)
        try:
            yield
        finally:
            self._held.remove(most)
            self._freed.set()

    def _has_room(self, budget: RunBudget, most: tuple[float, int]) -> bool:
        usd = self.usd + sum(each for each, _ in self._held) + most[0]
        tokens = self.tokens + sum(each for _, each in self._held) + most[1]
        return (budget.usd is None or usd <= budget.usd) and (
            budget.tokens is None or tokens <= budget.tokens
        )


@dataclass(slots=True)
class LiveRun:
    """See the module. For the event loop's thread only."""

    row: NewRun | Run
    """The run as it is stored."""
    progress: Progress
    """The state of its steps, and its variables."""
    callers: dict[StepId, Caller] = field(default_factory=dict)
    steps: dict[StepId, StepProgress] = field(default_factory=dict)
    """Times and figures of its steps; their `state` is the progress's."""
    reading: dict[Cell, asyncio.Task[None]] = field(default_factory=dict)
    """The variables that it reads, others write and have not written yet; and who waits for them."""
    attached: dict[StepId, asyncio.Event] = field(default_factory=dict)
    """Steps that a client's own request carries out: set when one may be asked, or never will be."""
    left: set[StepId] = field(default_factory=set)
    """Steps whose client's request ended with the process that it came to."""
    tasks: dict[StepId, asyncio.Task[None]] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)
    flow: Flow = field(default_factory=Flow.of_calls)
    timers: dict[str, asyncio.TimerHandle] = field(default_factory=dict)
    """`over` ends it when its time is over, `waits` looks whether it waits in vain."""
    moved_at_s: float = 0.0
    """When something of it happened last; 0: nothing yet."""
    template_tokens: dict[StepId, float] = field(default_factory=dict)
    """The tokens of a step's messages without its variables, roughly; filled as it is asked for."""
    objectives: Objectives | None = None
    """None if they have to be worked out anew."""
    growing: int = 0
    """Calls that are about to add steps: it does not end before."""
    ended: RunState | None = None
    ended_at_s: float | None = None
    failure: Failure | None = None
    watchers: list[Callable[[Changes], object]] = field(default_factory=list)
    """Told of every change: streams of the whole run."""
    repeatable: bool = True
    """True if all answers of its steps may be given to who asks the same again."""
    lost: bool = False
    """Another process carries it out."""
    id: str = field(init=False)
    tenant: str = field(init=False)
    app: str = field(init=False)
    no_store: bool = field(init=False)
    _new: dict[StepId, None] = field(default_factory=dict)
    """Steps that it grew by, in their order."""
    _changed: dict[StepId, None] = field(default_factory=dict)
    _told: dict[VariableId, None] = field(default_factory=dict)
    """Variables of which the first text came, or that ended."""
    _learned: set[StepId] = field(default_factory=set)
    """Steps that have learned of more to read."""
    _end: RunEnd | None = None

    def __post_init__(self) -> None:
        """Copy what is asked for all the time out of the row."""
        self.id, self.tenant, self.app, self.no_store = (
            self.row.id,
            self.row.tenant,
            self.row.app,
            self.row.no_store,
        )

    @property
    def goes_on(self) -> bool:
        """Tell if it has not ended, and is carried out here."""
        return self.ended is None and not self.lost

    @property
    def graph(self) -> Graph:
        """Its steps as they are planned."""
        return self.progress.graph

    @property
    def cells(self) -> dict[VariableId, Cell]:
        """The variables that its steps write."""
        return cast(dict[VariableId, Cell], self.progress.variables)

    # ---- what is not committed yet

    @property
    def dirty(self) -> bool:
        """Tell if something is to be committed, if it may be yet."""
        return bool(self._changed or self._told or self._learned or self._new or self._end)

    def step(self, id: StepId, **changes: Any) -> None:
        """Note how far a step is."""
        one = self.steps.get(id)
        if one is None:
            one = self.steps[id] = StepProgress()
        for name, value in changes.items():
            setattr(one, name, value)
        self._changed[id] = None

    def is_kept(self, step: StepId) -> bool:
        """Tell if all that was noted of a step, and is not being written, is committed."""
        return step not in self._changed

    def told(self, variables: Iterable[VariableId]) -> None:
        """Note that the first text of variables came, or that they ended."""
        self._told |= dict.fromkeys(variables)

    def end(self, end: RunEnd) -> None:
        """Note that it is over."""
        self._end = end

    def grew(self, steps: Iterable[StepId]) -> None:
        """Note steps that it had not at its beginning."""
        self._new |= dict.fromkeys(steps)

    def learned(self, step: StepId) -> None:
        """Note that a step reads more than it did."""
        self._learned.add(step)

    def forget(self, steps: Iterable[StepId]) -> None:
        """Nothing of these steps, which are not stored, is ever committed."""
        for step in steps:
            self._new.pop(step, None)
            self._changed.pop(step, None)
            for id in self.graph.steps[step].writes.values():
                self._told.pop(id, None)
                self.cells.pop(id, None)

    def taken(self, now_s: float) -> RunChange | None:
        """All of that, to be committed; None if there is nothing but what has to wait for the end of a list."""
        new = [id for id in self._new if not self._is_early(id)]
        changed = [id for id in self._changed if not self._is_early(id)]
        told = [self.cells[id] for id in self._told if not self._is_of_early(id)]
        if not (new or changed or told or self._learned or self._end):
            return None
        change = self._change(now_s, new, changed, told)
        for left, of_it in ((self._new, new), (self._changed, changed), (self._told, [c.id for c in told])):
            for id in of_it:
                del left[id]
        self._end, self._learned = None, set()
        return change

    def _change(
        self, now_s: float, new: Sequence[StepId], changed: Sequence[StepId], told: Sequence[Cell]
    ) -> RunChange:
        plans = [self.graph.steps[id] for id in new]
        return RunChange(
            self.id,
            now_s,
            {id: replace(self.steps[id], state=self.progress.steps[id].value) for id in changed},
            [cell.id for cell in told if not cell.ended],
            [_ended(cell) for cell in told if cell.ended],
            self._end,
            [row_of(plan) for plan in plans],
            variables_of(plans, end_user=self.row.end_user),
            {id: dict(self.graph.steps[id].reads) for id in self._learned},
        )

    def _is_early(self, step: StepId) -> bool:
        """Tell if it runs on an item of a list that is not whole: nothing of it is committed before the list is."""
        plan = self.graph.steps.get(step)
        if plan is None or plan.early is None:
            return False
        list_of = self.graph.steps[plan.early].writes.values()
        return any(self.progress.of(id).state is not VariableState.READY for id in list_of)

    def _is_of_early(self, variable: VariableId) -> bool:
        producer = self.graph.producer(variable)
        return producer is not None and self._is_early(producer.id)

    def give_back(self, change: RunChange) -> None:
        """Take back what could not be committed: it is to be committed after all."""
        self._new = {step.id: None for step in change.new_steps} | self._new
        self._changed |= dict.fromkeys(change.steps)
        self._told |= dict.fromkeys([*change.streaming, *(end.id for end in change.variables)])
        self._learned.update(change.reads)
        self._end = self._end or change.end

    # ---- what it looks like

    @property
    def output(self) -> VariableId:
        """The variable of a workflow's output."""
        return self.flow.output

    @property
    def used(self) -> Used:
        """The sum over its steps so far."""
        return used_by(self.steps.values())

    def name_of(self, id: StepId) -> str:
        """A step's name, for people."""
        return self.graph.steps[id].name or id


def used_by(steps: Iterable[StepProgress]) -> Used:
    """The sum over steps."""
    used = Used()
    for step in steps:
        used.prompt_tokens += step.prompt_tokens
        used.cached_tokens += step.cached_tokens
        used.completion_tokens += step.completion_tokens
        used.cost_usd += step.cost_usd
    return used


def kept_step(
    step: Step, caller: Caller, kept: Mapping[str, Any], *, attached: bool = False, no_store: bool = False
) -> NewStep:
    """A step as it is stored: its templates, and who asked. `kept` is Caller.kept, the same for all steps of a request."""
    dumped = b"" if no_store else body_of(step, kept, attached)
    return NewStep(
        step.id,
        step.name,
        str(step.chat.get("model") or ""),
        dumped,
        dict(step.reads),
        dict(step.writes),
        caller.contributor,
    )


def body_of(step: Step, caller: Mapping[str, Any], attached: bool) -> bytes:
    """Encode what another process needs to ask a step. Integers beyond 64 bits are told as JSON numbers."""
    whole = {"step": dumped(step), "caller": caller, "attached": attached}
    try:
        return orjson.dumps(whole)
    except TypeError:
        import json

        return json.dumps(whole, ensure_ascii=False).encode()


def stored_failure(failure: WhyFailed) -> Failure:
    """A failure as it is stored."""
    return Failure(failure.code, failure.message, failure.status or 0, failure.chain)


def why(failure: Failure | None) -> WhyFailed:
    """A stored failure as the steps that wait for the variable are told of it."""
    if failure is None:
        return WhyFailed("cancelled", "The run that was to produce it was cancelled.", ())
    return WhyFailed(failure.code, failure.message, failure.chain, failure.status or None)


def _ended(cell: Cell) -> VariableEnd:
    """Return the end of a variable, as it is stored."""
    value = None if cell.value is None else stored_value(cell.value)
    failed = cell.failure if cell.state is not VariableState.SKIPPED else None
    return VariableEnd(cell.id, cell.state.value, value, None if failed is None else stored_failure(failed))


def stored_value(value: Value) -> str | tuple[str, ...]:
    """A value as it is stored."""
    return value if isinstance(value, str) else tuple(value)


def value_of(value: str | tuple[str, ...]) -> Value:
    """A stored value."""
    return value if isinstance(value, str) else list(value)


def row_of(step: Step) -> NewStep:
    """A step of a workflow as it is stored: the definition in the run's context says what it does."""
    return NewStep(
        step.id,
        step.name,
        str(step.chat.get("model") or ""),
        b"",
        dict(step.reads),
        dict(step.writes),
        primitive=step.primitive,
        component=str(step.what.get("component") or ""),
        effects=step.effects,
        waits=step.waits,
    )


def variables_of(steps: Iterable[Step], app: str = "", end_user: str = "") -> list[NewVariable]:
    """The variables that steps write, as they are stored."""
    return [
        NewVariable(id, name, app, step.id, end_user=end_user)
        for step in steps
        for name, id in step.writes.items()
    ]
