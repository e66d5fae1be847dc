"""Operations on engines: draining one, and having it asked again."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from admin.operations.operation import By, Outcome, operation
from admin.page import ActionFailed
from admin.sources import Sources
from store.validating import CLOSED

_WRITE_S = 30.0
Name = Annotated[str, Field(max_length=500, title="NAME[@HOST:PORT]")]


@dataclass(frozen=True, slots=True, config=CLOSED)
class Draining:
    """Which engine, or which replica of it, and why."""

    name: Name
    reason: Annotated[str, Field(max_length=200)] = Field(
        default="", description="Why; shown on the admin pages."
    )
    stand_in: Annotated[str, Field(max_length=200)] = Field(
        default="",
        description="The engine to ask where no other engine of a model answers; its price counts.",
    )


@dataclass(frozen=True, slots=True, config=CLOSED)
class OneEngine:
    """Which engine, or which replica of it."""

    name: Name


@operation("engines/drain", arguments=("name",))
def drain(sources: Sources, by: By, given: Draining) -> Outcome:
    """Have nothing new asked of an engine: within a second, by every worker, also after a restart, until it is
    resumed.
    """
    engine, _, replica = given.name.partition("@")
    _check_known(sources, by, engine, replica)
    if given.stand_in:
        _check_known(sources, by, given.stand_in, "")
        if replica or given.stand_in == engine:
            raise ActionFailed("A stand-in is another engine, for one that is drained with all its replicas.")
    states = sources.store.jobs.engine_states
    if not states.drain(engine, by.name, given.reason, replica, given.stand_in).result(_WRITE_S):
        raise ActionFailed(f"{given.name} is drained already.")
    said = f"{given.name} is drained: workers stop asking it within a second, and finish what is under way."
    if given.stand_in:
        said += f" Where no other engine of a model answers, {given.stand_in} is asked."
    detail = {"reason": given.reason, "stand_in": given.stand_in}
    return Outcome(said, given.name, {name: value for name, value in detail.items() if value})


@operation("engines/resume", arguments=("name",))
def resume(sources: Sources, by: By, given: OneEngine) -> Outcome:
    """Let a drained engine be asked again; NAME alone resumes every replica of it."""
    engine, _, replica = given.name.partition("@")
    if not sources.store.jobs.engine_states.restore(engine, replica).result(_WRITE_S):
        raise ActionFailed(f"{given.name} was not drained.")
    return Outcome(f"{given.name} is resumed: workers ask it again within a second.", given.name)


def _check_known(sources: Sources, by: By, engine: str, replica: str) -> None:
    """Raises ActionFailed for a name that neither the configuration nor any running worker has."""
    rows = sources.store.jobs.engine_states.now(by.now_s)
    known = {engine.name for engine in sources.gateway.engines} | {row.engine for row in rows}
    replicas = {row.replica for row in rows if row.engine == engine and row.replica}
    named = {f"{row.engine}@{row.replica}" if row.replica else row.engine for row in rows}
    if known and (engine not in known or (replica and replica not in replicas)):
        name = f"{engine}@{replica}" if replica else engine
        raise ActionFailed(f"There is no engine {name!r}; known are {', '.join(sorted(known | named))}.")
