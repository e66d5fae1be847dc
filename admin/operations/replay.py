"""Operations on runs of replay: stopping one."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from admin.operations.operation import By, Outcome, operation
from admin.page import ActionFailed, NotThere
from admin.sources import Sources
from store.validating import CLOSED

_WRITE_S = 30.0


@dataclass(frozen=True, slots=True, config=CLOSED)
class OneReplay:
    """Which run of replay."""

    id: Annotated[int, Field(title="RUN", ge=0, lt=2**53)]


@operation("replay/stop", arguments=("id",))
def stop(sources: Sources, by: By, given: OneReplay) -> Outcome:
    """Have a run stop before its next request to an engine; another process may be running it."""
    jobs = sources.store.jobs.replay
    run = jobs.run(given.id)
    if run is None:
        raise NotThere(f"There is no run {given.id}; `understudy learn replay list` shows them.")
    if not jobs.ask_to_stop(run.id).result(_WRITE_S):
        raise ActionFailed(f"Run {run.id} does not go on: it is {run.shown_state}.")
    return Outcome(f"Run {run.id} stops before its next request.", str(run.id))
