"""One run that this process carries out: its graph, how far each step is, and what of it is not committed yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from gateway.runs.caller import Caller
from gateway.runs.cell import Cell
from gateway.runs.workflow import Flow, Used
from store.workflows.records import (
    Failure,
    NewStep,
    NewVariable,
    RunBudget,
    RunChange,
    RunEnd,
    StepProgress,
    VariableEnd,
)
from workflows.graph import Graph, Step
from workflows.names import StepId, VariableId
from workflows.objective import Objectives
from workflows.progress import Changes, Progress, RunState
from workflows.progress import Failure as WhyFailed
from workflows.transform import Value, size_bytes

MAX_ATTEMPTS = 2
"""How often one step is asked at most: once more where the process died that had asked."""
MAX_COMPUTED = 10
"""How often a step that does nothing but compute is begun at most. It begins anew with each process that dies: that may be
none of its doing, but a step of which processes die must not end them all."""


@dataclass(slots=True)
class Spent:
    """What a run has used, and what its steps under way have set aside."""

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

    id: str
    tenant: str
    app: str
    graph: Graph
    progress: Progress
    created_at_s: float
    keep_values_s: float
    no_store: bool = False
    background: bool = True
    budget: RunBudget = field(default_factory=RunBudget)
    callers: dict[StepId, Caller] = field(default_factory=dict)
    steps: dict[StepId, StepProgress] = field(default_factory=dict)
    cells: dict[VariableId, Cell] = field(default_factory=dict)
    """Of the variables that its steps write."""
    outside: dict[VariableId, Cell] = field(default_factory=dict)
    """Of the variables that it reads and others write."""
    attached: dict[StepId, asyncio.Future[None]] = field(default_factory=dict)
    """Steps that a client's own request carries out: resolved when one may be asked."""
    left: set[StepId] = field(default_factory=set)
    """Steps whose client's request ended with the process that it came to."""
    tasks: dict[StepId, asyncio.Task[None]] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)
    end_user: str = ""
    """Whose it is, as a digest, where each end user has a memory of their own."""
    flow: Flow | None = None
    """Of a workflow: by what it grows. None where its steps came from the client."""
    over: asyncio.TimerHandle | None = None
    """Ends it when its time is over."""
    waits: asyncio.TimerHandle | None = None
    """Looks whether it waits in vain."""
    moved_at_s: float = 0.0
    """When something of it happened last; 0: nothing yet."""
    template_tokens: dict[StepId, float] = field(default_factory=dict)
    """Of a step's messages without its variables, roughly; filled as it is asked for."""
    objectives: Objectives | None = None
    """None where they have to be worked out anew."""
    growing: int = 0
    """Calls that are about to add steps: it does not end before."""
    ended: RunState | None = None
    ended_at_s: float | None = None
    failure: Failure | None = None
    watchers: list[Callable[[Changes], object]] = field(default_factory=list)
    """Told of every change: streams of the whole run."""
    lost: bool = False
    """Another process carries it out."""
    _dirty_steps: set[StepId] = field(default_factory=set)
    _dirty_variables: dict[VariableId, VariableEnd] = field(default_factory=dict)
    _streaming: set[VariableId] = field(default_factory=set)
    _end: RunEnd | None = None
    _new_steps: dict[StepId, NewStep] = field(default_factory=dict)
    _new_variables: dict[VariableId, NewVariable] = field(default_factory=dict)
    _held_back: set[StepId] = field(default_factory=set)
    """Steps of which nothing is committed before they are `let_in`: they ran on items of a list that was not whole."""
    _forgotten: set[StepId] = field(default_factory=set)
    _reads: dict[StepId, Mapping[str, VariableId]] = field(default_factory=dict)

    # ---- what is not committed yet

    @property
    def dirty(self) -> bool:
        """Whether something is to be committed."""
        if self._held_back:
            new = any(step not in self._held_back for step in self._new_steps)
            return new or bool(self._dirty_steps - self._held_back or self._reads or self._end)
        changed = self._dirty_steps or self._dirty_variables or self._streaming or self._reads
        return bool(changed or self._new_steps or self._end)

    def step(self, id: StepId, **changes: Any) -> None:
        """Note how far a step is."""
        self.steps[id] = replace(self.steps.get(id, _NOTHING_YET), **changes)
        if id not in self._forgotten:
            self._dirty_steps.add(id)

    def variable(self, end: VariableEnd) -> None:
        """Note how a variable ended."""
        self._streaming.discard(end.id)
        self._dirty_variables[end.id] = end

    def streams(self, id: VariableId) -> None:
        """Note that the first text of a variable came."""
        self._streaming.add(id)

    def end(self, end: RunEnd) -> None:
        """Note that it is over."""
        self._end = end

    def grew(self, steps: Iterable[NewStep], variables: Iterable[NewVariable], *, held_back: bool) -> None:
        """Note steps that it had not at its beginning. `held_back`: nothing of them is committed until they are `let_in`."""
        new = {step.id: step for step in steps}
        self._new_steps |= new
        self._new_variables |= {variable.id: variable for variable in variables}
        if held_back:
            self._held_back |= new.keys()

    def let_in(self, steps: Iterable[StepId]) -> None:
        """What steps were held back for is there: they are committed with the next change."""
        self._held_back.difference_update(steps)

    def forget(self, steps: Iterable[StepId]) -> None:
        """Nothing of these steps, which are not stored, is ever committed."""
        gone = set(steps)
        variables = {id for step in gone for id in self.graph.steps[step].writes.values()}
        self._new_steps = {id: step for id, step in self._new_steps.items() if id not in gone}
        self._new_variables = {id: v for id, v in self._new_variables.items() if id not in variables}
        self._dirty_variables = {id: e for id, e in self._dirty_variables.items() if id not in variables}
        self._dirty_steps -= gone
        self._streaming -= variables
        self._held_back -= gone
        self._forgotten |= gone

    def learned(self, step: StepId, reads: Mapping[str, VariableId]) -> None:
        """Note all that a step reads, where it has learned of more."""
        self._reads[step] = reads

    def grown(self) -> tuple[list[NewStep], list[NewVariable]]:
        """The new steps that are to be written before anything is said of them, with their variables; to be asked for before
        `taken`."""
        if not self._new_steps:
            return [], []
        steps = [step for id, step in self._new_steps.items() if id not in self._held_back]
        variables = [v for v in self._new_variables.values() if v.step not in self._held_back]
        for step in steps:
            del self._new_steps[step.id]
        for variable in variables:
            del self._new_variables[variable.id]
        return steps, variables

    def taken(self, now_s: float) -> RunChange:
        """All of that, to be committed; nothing is left but what is held back."""
        ready = self._dirty_steps - self._held_back
        back = {id for step in self._held_back for id in self.graph.steps[step].writes.values()}
        variables = tuple(end for id, end in self._dirty_variables.items() if id not in back)
        change = RunChange(
            self.id,
            now_s,
            {id: self.steps[id] for id in ready},
            tuple(self._streaming - back),
            variables,
            self._end,
            self._reads,
        )
        self._dirty_steps -= ready
        self._dirty_variables = {id: end for id, end in self._dirty_variables.items() if id in back}
        self._streaming &= back
        self._end, self._reads = None, {}
        return change

    def give_back_grown(self, steps: Iterable[NewStep], variables: Iterable[NewVariable]) -> None:
        """New steps that could not be written are to be written after all."""
        self._new_steps = {step.id: step for step in steps} | self._new_steps
        self._new_variables = {variable.id: variable for variable in variables} | self._new_variables

    def give_back(self, change: RunChange) -> None:
        """What could not be committed is to be committed after all; what came later stays."""
        self._dirty_steps.update(change.steps.keys() - self._forgotten)
        self._streaming.update(change.streaming)
        self._dirty_variables = {end.id: end for end in change.variables} | self._dirty_variables
        reads = {id: each for id, each in change.reads.items() if id not in self._forgotten}
        self._reads = {**reads, **self._reads}
        self._end = self._end or change.end

    # ---- what it looks like

    @property
    def held_bytes(self) -> int:
        """Of its values, about."""
        given = self.flow.given.values() if self.flow is not None else ()
        made = (cell.value for cell in self.cells.values() if cell.value is not None)
        return sum(size_bytes(value) for value in (*made, *given))

    @property
    def output(self) -> VariableId:
        """The variable of a workflow's output."""
        assert self.flow is not None
        return self.flow.output

    @property
    def used(self) -> Used:
        """The sum over its steps so far."""
        return used_by(self.steps.values())

    def name_of(self, id: StepId) -> str:
        """A step's name, for people."""
        return self.graph.steps[id].name or id


_NOTHING_YET = StepProgress()


def used_by(steps: Iterable[StepProgress]) -> Used:
    """The sum over steps."""
    used = Used()
    for step in steps:
        used.prompt_tokens += step.prompt_tokens
        used.cached_tokens += step.cached_tokens
        used.completion_tokens += step.completion_tokens
        used.cost_usd += step.cost_usd
        used.warmed_tokens += step.warmed_tokens
    return used


def cells_of(run: LiveRun, steps: Iterable[Step]) -> dict[VariableId, Cell]:
    """Cells of all variables that the steps write."""
    return {
        id: Cell(id, run.tenant, name=name, app=run.app, run=run.id, end_user=run.end_user)
        for step in steps
        for name, id in step.writes.items()
    }


def kept_step(step: Step, caller: Caller, *, attached: bool = False, no_store: bool = False) -> NewStep:
    """A step as it is stored: its templates, and who asked."""
    dumped = b"" if no_store else body_of(step, caller, attached)
    return NewStep(
        step.id,
        step.name,
        str(step.chat.get("model") or ""),
        dumped,
        dict(step.reads),
        dict(step.writes),
        caller.contributor,
    )


def body_of(step: Step, caller: Caller, attached: bool) -> bytes:
    """What another process needs to ask a step. Integers beyond 64 bits are told as JSON numbers."""
    whole = {"step": Graph([step]).dumped(), "caller": caller.kept(), "attached": attached}
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


def skipped(name: str) -> WhyFailed:
    """Why a variable whose branch was not taken has no value."""
    return WhyFailed("skipped", "The branch that would have written it was not taken.", (name,))


def stored_value(value: Value) -> str | tuple[str, ...]:
    """A value as it is stored."""
    return value if isinstance(value, str) else tuple(value)


def value_of(value: str | tuple[str, ...] | None) -> Value:
    """A stored value."""
    return value if isinstance(value, str) else list(value or ())
