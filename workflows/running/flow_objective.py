"""Deduces how urgent each chat step of a workflow is: by its output's criteria, its depth, and what is left of the run.

The items of a `map` are a task group: only the last of them counts. What is left is kept as steps come and end, so that
asking costs nothing, however many there are. All figures are estimates.
"""

from __future__ import annotations

from collections.abc import Iterable

from engines.chat import prompt_tokens
from workflows.criteria import Criteria
from workflows.definition import StepSpec
from workflows.graph import Step
from workflows.names import StepId
from workflows.objective import Objective, Rank
from workflows.progress import StepState
from workflows.running.expected import ExpectedTokens
from workflows.running.live import LiveRun
from workflows.running.workflow import WorkLeft

_OPEN = (StepState.WAITING, StepState.QUEUED, StepState.RUNNING)
_ITEMS = 3
"""The items of a list of which nothing is known."""


class FlowObjectives:
    """`begun`, then `came` and `ended` as steps do, and `of` for each that is asked."""

    def __init__(self, expected: ExpectedTokens) -> None:
        self._expected = expected

    def begun(self, run: LiveRun) -> None:
        """A run is carried out here from now on."""
        left = run.flow.work = WorkLeft()
        specs = run.flow.definition.steps
        for spec in specs.values():
            if spec.kind in ("map", "fold") and spec.messages:
                each = prompt_tokens(spec.messages) + self._expected.answer({"model": spec.model})
                left.ahead[spec.name] = each * _items(specs.get(spec.over[0]))
        left.total = sum(left.ahead.values())
        self.came(run, run.graph.steps.values())

    def came(self, run: LiveRun, steps: Iterable[Step]) -> None:
        """Steps that the run grew by."""
        left = run.flow.work
        for step in steps:
            if step.primitive == "chat" and run.progress.steps[step.id] in _OPEN:
                left.total -= left.ahead.pop(step.of, 0.0)
                self._expect(
                    left, step, prompt_tokens(step.chat["messages"]) + self._expected.answer(step.chat)
                )

    def ended(self, run: LiveRun, step: StepId) -> None:
        """A step ended, however."""
        run.flow.work.total -= run.flow.work.steps.pop(step, 0.0)

    def of(self, run: LiveRun, step: Step) -> Objective:
        """The objective of a chat step that has not ended."""
        flow = run.flow
        criteria = run.progress.gets.get(flow.output, Criteria.LATENCY)
        rank, group = Rank.LATENCY, ""
        if criteria is Criteria.THROUGHPUT:
            rank = Rank.THROUGHPUT
        elif flow.definition.steps[step.of].kind == "map":
            rank, group = Rank.GROUP, step.of
        return Objective(rank, group, max(0, flow.depth - step.depth), flow.work.total)

    def _expect(self, left: WorkLeft, step: Step, tokens: float) -> None:
        left.total += tokens - left.steps.get(step.id, 0.0)
        left.steps[step.id] = tokens


def _items(source: StepSpec | None) -> int:
    """Guess how long the list of a step will be."""
    if source is None:
        return _ITEMS
    return source.items or source.k or _ITEMS
