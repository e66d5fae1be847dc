"""Operations on versions of what was learnt: rolling back, using one, freezing."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal, get_args

from pydantic import Field
from pydantic.dataclasses import dataclass

from admin.operations.operation import By, Outcome, Tenant, operation
from admin.page import ActionFailed
from admin.sources import Sources
from store.learned.artifacts import KINDS, ArtifactBroken
from store.records import ArtifactRecord
from store.validating import CLOSED

Slot = tuple[str, str, str]
"""Kind, tenant, model."""
Kind = Literal["scorer", "bandit", "counts", "student"]
assert set(get_args(Kind)) == set(KINDS)
Model = Annotated[
    str, Field(max_length=200, description="The served model; nothing for a version that serves any of them.")
]
Whose = Annotated[
    Tenant,
    Field(description="Whose; 'operator' for what came of labels of your own."),
]
ALL_TENANTS = "all tenants"


@dataclass(frozen=True, slots=True, config=CLOSED)
class OneSlot:
    """What was learnt of a kind, for a tenant and a model."""

    kind: Kind
    tenant: Whose = ""
    model: Model = ""
    in_use: str = ""
    """The version that was in use when the page was read, or "none"; empty claims nothing."""

    @property
    def slot(self) -> Slot:
        """The key of its versions in the store."""
        return self.kind, self.tenant, self.model


@dataclass(frozen=True, slots=True, config=CLOSED)
class Rollback(OneSlot):
    """Which version is to be used again."""

    to: int | None = Field(
        default=None, title="VERSION", description="To this version instead of the one before."
    )
    freeze: bool = Field(default=False, description="And keep the learner from publishing over it.")


@dataclass(frozen=True, slots=True, config=CLOSED)
class Use:
    """Which version is to be used."""

    version: int
    in_use: str = ""


@operation("models/rollback", arguments=("kind",), of_pages=("in_use",))
def rollback(sources: Sources, by: By, given: Rollback) -> Outcome:
    """Go back to the version that served before, or, before the first, to the built-in prior or rule."""
    artifacts, slot = sources.store.artifacts, given.slot
    before = artifacts.active(*slot)
    if given.to is not None:
        record = _version(sources, given.to)
        if (record.kind, record.tenant, record.model) != slot:
            raise ActionFailed(f"Version {given.to} is no {given.kind} of that tenant and model.")
    elif before is None:
        raise ActionFailed("Nothing learnt is in use there: there is nothing to go back from.")
    # Frozen first: between the two a learner could publish.
    if given.freeze:
        artifacts.freeze(*slot)
    check = partial(_refuse_if_changed, given.in_use)
    if given.to is not None:
        return _now_in_use(
            sources, slot, before, artifacts.activate(given.to, check=check), frozen=given.freeze
        )
    now = artifacts.rollback(*slot, check=check)
    return _now_in_use(sources, slot, before, now, frozen=given.freeze)


@operation("models/built-in")
def use_built_in(sources: Sources, by: By, given: OneSlot) -> Outcome:
    """Take the version in use out of use: what is built in serves."""
    before = sources.store.artifacts.retire(*given.slot, check=partial(_refuse_if_changed, given.in_use))
    if before is None:
        raise ActionFailed("Nothing learnt is in use there: what is built in serves already.")
    return _now_in_use(sources, given.slot, before, None)


@operation("models/use", arguments=("version",))
def use(sources: Sources, by: By, given: Use) -> Outcome:
    """Take a version into use, whatever its state."""
    record = _version(sources, given.version)
    slot = (record.kind, record.tenant, record.model)
    before = sources.store.artifacts.active(*slot)
    now = sources.store.artifacts.activate(given.version, check=partial(_refuse_if_changed, given.in_use))
    return _now_in_use(sources, slot, before, now)


@operation("models/freeze", arguments=("kind",), of_pages=("in_use",))
def freeze(sources: Sources, by: By, given: OneSlot) -> Outcome:
    """Keep what is in use; new versions are kept beside it, and not used."""
    sources.store.artifacts.freeze(*given.slot)
    active = sources.store.artifacts.active(*given.slot)
    said = f"Frozen at {serving_name(active, active)}: new versions are kept, and not taken into use."
    return Outcome(said, "/".join(given.slot))


@operation("models/unfreeze", arguments=("kind",), of_pages=("in_use",))
def unfreeze(sources: Sources, by: By, given: OneSlot) -> Outcome:
    """Let the next version be taken into use."""
    if not sources.store.artifacts.unfreeze(*given.slot):
        raise ActionFailed("It was not frozen.")
    return Outcome(
        "Not frozen any more: the next version that is better is taken into use.", "/".join(given.slot)
    )


def serving_name(own: ArtifactRecord | None, serves: ArtifactRecord | None) -> str:
    """What serves a slot, in words: its own version, or else what stands in for it."""
    if own is not None:
        return f"version {own.id}"
    return f"version {serves.id} for {ALL_TENANTS}" if serves is not None else "built-in"


def _version(sources: Sources, id: int) -> ArtifactRecord:
    record = sources.store.artifacts.get(id)
    if record is None:
        raise ActionFailed(f"There is no version {id}: it may have been dropped for its age.")
    try:
        sources.store.artifacts.read(record)
    except ArtifactBroken as broken:
        raise ActionFailed(f"{broken}.") from broken
    return record


def _refuse_if_changed(in_use: str, before: ArtifactRecord | None) -> None:
    """Raises ActionFailed where another version is in use than `in_use` says.

    To be asked inside the transaction: a second operator at the same moment, in any process, is told.
    """
    now = "none" if before is None else str(before.id)
    if in_use not in ("", now):
        raise ActionFailed(
            "Another version was taken into use meanwhile: "
            f"{'what is built in' if before is None else before.id}. Nothing was changed; look again.",
            "in_use",
        )


def _now_in_use(
    sources: Sources,
    slot: Slot,
    before: ArtifactRecord | None,
    now: ArtifactRecord | None,
    *,
    frozen: bool = False,
) -> Outcome:
    said = f"In use now: {serving_name(now, now or sources.store.artifacts.best(*slot))}."
    version = {"version": {"old": before.id if before else None, "new": now.id if now else None}}
    if slot in sources.store.artifacts.frozen():
        said += " It stays frozen: new versions are kept, and not taken into use."
    else:
        said += " The learner may publish a new version; freeze to keep it from that."
    return Outcome(said, "/".join(slot), version | ({"frozen": True} if frozen else {}))
