"""Lets the run of a workflow grow: values that came become further steps, whose rows are written with the next change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gateway.runs.cell import Cell
from gateway.runs.live import LiveRun, cells_of
from store.workflows.records import NewStep, NewVariable
from workflows.graph import Step
from workflows.names import StepId, VariableId
from workflows.progress import Changes
from workflows.transform import Value
from workflows.unfolding import Added


class TooManySteps(Exception):
    """A run would have more steps than a run may have."""


class Growing:
    """`cells` are those of all runs of this process."""

    def __init__(self, cells: dict[VariableId, Cell], max_steps: int) -> None:
        self._cells = cells
        self._max_steps = max_steps

    def grown(self, run: LiveRun, changes: Changes) -> Changes:
        """The changes of an event, with everything that follows from the values that it brought. Raises TooManySteps."""
        assert run.flow is not None
        unfolding = run.flow.unfolding
        come = list(changes.ready.items())
        while come:
            variable, value = come.pop(0)
            more = self.take_up(run, unfolding.ready(variable, value))
            come += more.ready.items()
            merge(changes, more)
        changes.ended = run.progress.state if changes.ended and not run.progress.open else None
        return changes

    def take_up(self, run: LiveRun, added: Added) -> Changes:
        """Take up what a run grows by. Raises TooManySteps."""
        changes = Changes()
        new = [step for step in added.steps if step.id not in run.graph.steps]
        if len(run.graph.steps) + len(new) > self._max_steps:
            raise TooManySteps
        if new:
            run.graph.add(*new)
            self._know(run, new)
        for id, reads in added.reads:
            run.graph.read_more(id, reads)
            run.learned(id, run.graph.steps[id].reads)
        if new or added.reads:
            run.objectives = None
            merge(changes, run.progress.added())
        for variable, value in added.values.items():
            merge(changes, run.progress.value(variable, value))
        return changes

    def _know(self, run: LiveRun, steps: Iterable[Step]) -> None:
        assert run.flow is not None
        early = [step for step in steps if step.early]
        whole = [step for step in steps if not step.early]
        for some, held_back in ((whole, False), (early, True)):
            if some:
                rows = [row_of(step) for step in some]
                run.grew(rows, variables_of(some), held_back=held_back)
        cells = cells_of(run, steps)
        for cell in cells.values():
            cell.private = run.no_store
        run.cells |= cells
        self._cells |= cells
        run.callers |= dict.fromkeys((step.id for step in steps), run.flow.caller)


def merge(changes: Changes, more: Changes) -> None:
    """Add what a further event brought about to the changes of one."""
    changes.start += more.start
    changes.stop += more.stop
    changes.steps |= more.steps
    changes.ready |= more.ready
    changes.failed |= more.failed
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


def variables_of(steps: Iterable[Step], app: str = "") -> list[NewVariable]:
    """The variables that steps write, as they are stored."""
    return [NewVariable(id, name, app, step.id) for step in steps for name, id in step.writes.items()]
