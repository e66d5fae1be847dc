"""The workflow side of the executor: begins a run's graph, lets it grow, and sees to its steps, whatever their kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import count

import structlog

from engines.off_loop import off_loop
from workflows.definition import Splits
from workflows.errors import WorkflowError
from workflows.graph import Step
from workflows.items import Items
from workflows.names import StepId, new_id
from workflows.plan import StepPlan, planned
from workflows.progress import Changes, RunState, StepState
from workflows.running.asking import StepAsker
from workflows.running.knobs import RunKnobs
from workflows.running.live import LiveRun
from workflows.running.means import Means
from workflows.running.new_graph import NewGraph
from workflows.running.primitives import CHAT, Primitives
from workflows.running.workflow import Flow, NewWorkflow
from workflows.unfolding import Added, Unfolding

log = structlog.get_logger(__name__)

_EFFORT_BYTES = 2048
"""Planning a step is as much work as reading so many bytes."""
_ENDED = (StepState.DONE, StepState.FAILED, StepState.CANCELLED, StepState.SKIPPED)
Said = Callable[[LiveRun, StepId, str], object]


class TooManySteps(Exception):
    """A run would have more steps than a run may have."""


class Flows:
    """`applied` carries out the changes of an event that happened outside of any answer; `stop` ends a run with a code and a
    message, after the event that is being carried out."""

    def __init__(
        self,
        means: Means | None,
        knobs: RunKnobs,
        asker: StepAsker,
        applied: Callable[[LiveRun, Changes], None],
        stop: Callable[[LiveRun, str, str], None],
    ) -> None:
        self._means = means
        self._knobs = knobs
        self._asker = asker
        self._applied = applied
        self._stop = stop
        self._primitives = None if means is None else Primitives(means, knobs, asker)

    async def planned(self, new: NewWorkflow) -> Mapping[str, StepPlan]:
        """Plan how its steps are carried out: on a thread if there are many, which takes up to a second of CPU."""
        assert self._means is not None
        profile = self._means.profile()
        counts = {name: len(value) for name, value in new.inputs.items() if isinstance(value, list)}
        effort = len(new.definition.steps) * _EFFORT_BYTES
        return (await off_loop(effort, planned, new.definition, profile, counts=counts)).plans

    def graph_of(self, new: NewWorkflow, plans: Mapping[str, StepPlan]) -> NewGraph:
        """Return the steps to carry out. Raises WorkflowError for one that begins with more steps than a run may have."""
        id = new_id("run")
        unfolding = Unfolding(id, new.definition, plans, new.inputs, max_items=self._knobs.max_items)
        added, gets = unfolding.begin(), {unfolding.output: new.criteria}
        if len(added.steps) > self._knobs.max_steps:
            raise WorkflowError(_too_many(self._knobs.max_steps), code="too_many_steps")
        return NewGraph(
            new.caller,
            tuple(added.steps),
            app=new.app,
            gets=gets,
            budget=new.budget,
            background=new.background,
            idempotency_key=new.idempotency_key,
            idempotency_hash=new.idempotency_hash,
            size_bytes=new.size_bytes,
            id=id,
            flow=Flow(new.definition, plans, new.inputs, new.fields, unfolding, added.values),
            added=added,
        )

    # ---- what happens

    def grown(self, run: LiveRun, changes: Changes) -> Changes:
        """An event's changes, with everything that follows from the values that it brought."""
        try:
            come = list(changes.variables.values())
            for each in come:
                added = run.flow.unfolding.ready(each.id, each.value) if each.value is not None else None
                if added:
                    more = self._take_up(run, added)
                    come += more.variables.values()
                    merge(changes, more)
        except TooManySteps:
            self._stop(run, "too_many_steps", _too_many(self._knobs.max_steps))
        except Exception as error:
            # A fault of ours: a run that cannot grow would wait for ever.
            log.error("run_not_grown", run=run.id, error=type(error).__name__)
            self._stop(run, "internal_error", "The gateway failed on this run.")
        if changes.ended is not None:
            state = run.progress.state
            changes.ended = None if state is RunState.RUNNING else state
        run.forget(changes.dropped)
        for step, step_state in changes.steps.items():
            if step_state in _ENDED:
                self._asker.flowing.ended(run, step)
        return changes

    def _take_up(self, run: LiveRun, added: Added) -> Changes:
        """Take up what a run grows by: its rows are written with the next change. Raises TooManySteps."""
        if len(run.graph.steps) + len(added.steps) > self._knobs.max_steps:
            raise TooManySteps
        changes = run.progress.grow(added)
        new = [step.id for step in added.steps]
        run.grew(new)
        run.callers |= dict.fromkeys(new, next(iter(run.callers.values())))
        self._asker.flowing.came(run, added.steps)
        for id, _ in added.reads:
            run.learned(id)
        return changes

    def began(self, run: LiveRun) -> None:
        """Its inputs are known."""
        if run.flow.declared:
            self._asker.flowing.begun(run)

    def ended(self, run: LiveRun) -> None:
        """It is over, or another process carries it on."""
        run.progress.let_go()
        run.flow.indexes.clear()
        run.flow.scores.clear()

    async def carry_out(
        self, run: LiveRun, id: StepId, kept: Callable[[], Awaitable[None]], said: Said
    ) -> Changes:
        """Carry out a step whose start was noted, and return what follows. Raises nothing but CancelledError."""
        step = run.graph.steps[id]
        if step.primitive != CHAT:
            assert self._primitives is not None
            return await self._primitives.carry_out(run, id, kept)
        if (splits := splits_of(step)) is None:
            return await self._asker.ask(run, id, kept, partial(said, run, id))
        if step.what.get("on_error") or not _feeds_items(run, step.of):
            # Of a list that may be asked for again no item is handed on early.
            return _counted(run, step, await self._asker.ask(run, id, kept, partial(said, run, id)))
        items = Items(splits, self._knobs.max_items)
        places = count()

        def heard(piece: str) -> None:
            said(run, id, piece)
            for text in items.feed(piece):
                self._item(run, id, next(places), text)

        return _counted(run, step, await self._asker.ask(run, id, kept, heard))

    def _item(self, run: LiveRun, step: StepId, index: int, text: str) -> None:
        """An item of a list came, which is not whole."""
        if not run.goes_on:
            return
        try:
            changes = self._take_up(run, run.flow.unfolding.item(step, index, text))
        except TooManySteps:
            self._stop(run, "too_many_steps", _too_many(self._knobs.max_steps))
        else:
            self._applied(run, changes)


def splits_of(step: Step) -> Splits | None:
    """Return how a step's answer becomes a list; None if it does not."""
    splits = step.what.get("splits")
    return None if splits is None else Splits(**splits)


def merge(changes: Changes, more: Changes) -> None:
    """Add what a further event brought about to the changes of one."""
    changes.start += more.start
    changes.stop += more.stop
    changes.steps |= more.steps
    changes.variables |= more.variables
    changes.dropped += more.dropped
    changes.ended = more.ended or changes.ended


def _counted(run: LiveRun, step: Step, changes: Changes) -> Changes:
    """Note how many items a list has that a model wrote."""
    for variable in step.writes.values():
        ended = changes.variables.get(variable)
        if ended is not None and isinstance(ended.value, list):
            run.step(step.id, items=len(ended.value))
    return changes


def _feeds_items(run: LiveRun, name: str) -> bool:
    """Tell if a step starts on the items of this one."""
    flow = run.flow
    return any(
        flow.plans[spec.name].early_items and name in spec.over for spec in flow.definition.steps.values()
    )


def _too_many(most: int) -> str:
    return f"The run would have more than {most} steps, which workflows.max_steps allows."
