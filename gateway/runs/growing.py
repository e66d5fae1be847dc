"""Lets the run of a workflow grow: values that came become further steps, whose rows are written with the next change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.runs.cell import Cell
from gateway.runs.live import LiveRun, cells_of
from workflows.graph import Step
from workflows.names import StepId, VariableId
from workflows.progress import Changes, RunState
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
        self._forget(run, changes.dropped)
        return changes

    def take_up(self, run: LiveRun, added: Added) -> Changes:
        """Take up what a run grows by. Raises TooManySteps."""
        if len(run.graph.steps) + len(added.steps) > self._max_steps:
            raise TooManySteps
        changes = run.progress.grow(added)
        self.know(run, added.steps)
        for id, _ in added.reads:
            run.learned(id)
        return changes

    def know(self, run: LiveRun, steps: Sequence[Step]) -> None:
        """Note new steps, which the graph has: their variables, their rows, and who asks them."""
        assert run.flow is not None
        run.grew(step.id for step in steps)
        cells = cells_of(run, steps)
        for cell in cells.values():
            cell.private = run.no_store
        run.cells |= cells
        self._cells |= cells
        run.callers |= dict.fromkeys((step.id for step in steps), run.flow.caller)
        self._came(run, steps)

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
