"""Operations on applications' runs: cancelling one, and deciding about a step whose outcome nobody knows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from admin.operations.operation import By, Outcome, operation
from admin.page import LONGEST_PARAMETER, ActionFailed, BadParameter, NotThere
from admin.sources import Sources
from store.validating import CLOSED
from store.workflows.records import Resolution, WholeRun

_WAIT_S = 30.0
_SAID = {
    "retry": "It is asked once more",
    "skip": "The run goes on without it",
    "value": "The value is taken for its answer",
}
RunId = Annotated[str, Field(title="RUN")]


@dataclass(frozen=True, slots=True, config=CLOSED)
class OneRun:
    """Which run."""

    id: RunId


@dataclass(frozen=True, slots=True, config=CLOSED)
class Decision:
    """What a step is to be taken for."""

    id: RunId
    step: Annotated[str, Field(max_length=256)]
    how: Literal["retry", "skip", "value"]
    value: str | None = Field(default=None, description="What the step is taken to have answered.")


@operation("runs/cancel", arguments=("id",))
def cancel(sources: Sources, by: By, given: OneRun) -> Outcome:
    """Cancel a run that goes on. Its worker stops it within a second; without a running gateway, when one starts."""
    whole = _run(sources, given.id)
    if not sources.store.runs.request_cancel(whole.run.tenant, given.id).result(_WAIT_S):
        raise ActionFailed(f"This run has ended already: {whole.run.state}.")
    return Outcome("Asked to cancel: its worker stops it within a second.", given.id)


@operation("runs/resolve", arguments=("id", "step", "how"))
def resolve(sources: Sources, by: By, given: Decision) -> Outcome:
    """Decide about a step with side effects that was cut off while it was asked: look first whether it took
    effect. retry asks once more, skip goes on without it, value takes what --value says for its answer.
    """
    if (given.value is not None) != (given.how == "value"):
        raise BadParameter("A value goes with `value`, and `value` with a value.", "value")
    if given.value is not None and len(given.value) > LONGEST_PARAMETER:
        raise BadParameter(f"value has {len(given.value)} characters; {LONGEST_PARAMETER} are the most")
    whole = _run(sources, given.id)
    decided = Resolution(given.how, given.value)
    if not sources.store.runs.resolve(whole.run.tenant, given.id, given.step, decided).result(_WAIT_S):
        waiting = ", ".join(step.plan.id for step in whole.steps if step.progress.state == "unknown")
        raise ActionFailed(
            f"This step does not wait for a decision (any more); those that do: {waiting or 'none'}."
        )
    said = f"{_SAID[given.how]}: its worker goes on within a second."
    return Outcome(said, given.id, {"step": given.step, "how": given.how})


def _run(sources: Sources, id: str) -> WholeRun:
    whole = sources.store.runs.run(id)
    if whole is None:
        raise NotThere(f"There is no run {id[:64]!r}, or it is not kept any more.")
    return whole
