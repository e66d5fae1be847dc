"""Lets the run of a workflow grow: values that came become further steps, whose rows are written with the next change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gateway.runs.cell import Cell
from gateway.runs.live import LiveRun, cells_of
from store.workflows.records import NewStep, NewVariable
from workflows.graph import Step
from workflows.names import StepId, VariableId
from workflows.progress import Changes, RunState, StepState
from workflows.unfolding import Added


class TooManySteps(Exception):
    """A run would have more steps than a run may have."""


class Growing:
    """`cells` are those of all runs of this process; `came` is told of new steps."""

    def __init__(
        self,
        cells: dict[VariableId, Cell],
        max_steps: int,
        came: Callable[[LiveRun, Sequence[Step]], object],
    ) -> None:
        self._cells = cells
        self._max_steps = max_steps
        self._came = came

    def grown(self, run: LiveRun, changes: Changes) -> Changes:
        """The changes of an event, with everything that follows from the values that it brought. Raises TooManySteps."""
        assert run.flow is not None
        come = list(changes.ready.items())
        while come:
            variable, value = come.pop(0)
            added = run.flow.unfolding.ready(variable, value)
            if added:
                more = self.take_up(run, added)
                come += more.ready.items()
                merge(changes, more)
        if changes.ended is not None:
            state = run.progress.state
            changes.ended = None if state is RunState.RUNNING else state
        self._settle_early(run, changes)
        return changes

    def take_up(self, run: LiveRun, added: Added) -> Changes:
        """Take up what a run grows by. Raises TooManySteps."""
        if len(run.graph.steps) + len(added.steps) > self._max_steps:
            raise TooManySteps
        changes = run.progress.grow(added)
        self.know(run, added.steps)
        for id, _ in added.reads:
            run.learned(id, run.graph.steps[id].reads)
        return changes

    def know(self, run: LiveRun, steps: Sequence[Step]) -> None:
        """Note new steps, which the graph has: their variables, their rows, and who asks them."""
        assert run.flow is not None
        stored = run.flow.stored
        new = [step for step in steps if step.id not in stored]
        whole = [step for step in new if step.early is None]
        run.grew(map(row_of, whole), variables_of(whole, end_user=run.end_user), held_back=False)
        early = [step for step in new if step.early is not None]
        run.grew(map(row_of, early), variables_of(early, end_user=run.end_user), held_back=True)
        for step in early:
            assert step.early is not None
            run.flow.early.setdefault(step.early, []).append(step.id)
        cells = cells_of(run, steps)
        for cell in cells.values():
            cell.private = run.no_store
        run.cells |= cells
        self._cells |= cells
        run.callers |= dict.fromkeys((step.id for step in steps), run.flow.caller)
        self._came(run, steps)

    def _settle_early(self, run: LiveRun, changes: Changes) -> None:
        """The list on whose items steps ran is whole: they are committed with it; or it failed, and they are forgotten."""
        assert run.flow is not None
        for step, state in changes.steps.items():
            if state is StepState.DONE and step in run.flow.early and step not in changes.dropped:
                run.let_in(run.flow.early.pop(step))
        if changes.dropped:
            self._forget(run, changes.dropped)
        if changes.ended is not None:
            self._forget(run, [step for steps in run.flow.early.values() for step in steps])
            run.flow.early.clear()

    def _forget(self, run: LiveRun, steps: Sequence[StepId]) -> None:
        for step in steps:
            for variable in run.graph.steps[step].writes.values():
                run.cells.pop(variable, None)
                self._cells.pop(variable, None)
        run.forget(steps)


def merge(changes: Changes, more: Changes) -> None:
    """Add what a further event brought about to the changes of one."""
    changes.start += more.start
    changes.stop += more.stop
    changes.steps |= more.steps
    changes.ready |= more.ready
    changes.failed |= more.failed
    changes.opaque |= more.opaque
    changes.skipped += more.skipped
    changes.dropped += more.dropped
    changes.ended = more.ended or changes.ended


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
