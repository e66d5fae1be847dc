"""How each step of a definition is carried out: what the passes decide, and what they know of the engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

MOST_PIECES = 32
"""A longer list has larger pieces, not more."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What the passes know of the engines."""

    effective_batch: Mapping[str, int] = field(default_factory=dict)
    """By component: how many items at once its throughput still gains from. Without an entry, a list is not cut for it."""


@dataclass(frozen=True, slots=True)
class StepPlan:
    """How one step of a definition is carried out. The default is the plan without any pass, but for `order` and `after`."""

    order: tuple[str, ...] = ()
    """Steps whose END the head primitive waits for, however they ended; sorted."""
    after: tuple[str, ...] = ()
    """Steps that must have ended well, or been skipped, before the head primitive starts; sorted. Not touched by any
    pass."""
    early_items: bool = False
    """It starts on items of its source, a splitting chat, before the chat's answer is whole: one piece per item."""
    stage: int | None = None
    """Its source's whole list is cut into pieces of this many items, if it has more; None: one piece. Where it `follows` a
    `map`, so many of its items make a piece; where it follows pieces of another kind, those are its own."""
    follows: bool = False
    """Where its source comes in pieces (cut, early, or a `map`'s items), it takes each as it is there."""
    depth: int = 0
    """Primitives from its head to the farthest end of the graph: those with more go first."""
    depths: Mapping[str, int] = field(default_factory=dict)
    """By primitive (`embed`, `search`, `decode`, …); of a `fold`, of its last turn: each turn before it is two deeper."""


NO_PLAN = StepPlan()


@dataclass(frozen=True, slots=True)
class Note:
    """One change that a pass made."""

    by: str
    """The pass, one of `workflows.definition.PASSES`."""
    step: str
    what: str
    """In words, for `explain` and the pages."""
    edge: tuple[str, str] | None = None
    """The edge (ids of nodes) that was removed or changed."""
    nodes: tuple[str, ...] = ()
    """The nodes that were changed or made."""


def piece_items(stage: int, count: int) -> int:
    """Items per piece of a list of `count`: `stage`, or more where that would be too many pieces."""
    return max(stage, -(-count // MOST_PIECES))


def dumped(plans: Mapping[str, StepPlan]) -> dict[str, Any]:
    """Plans as JSON values: a run that another process takes up keeps the plans it began with, and so the same pieces."""
    return {name: _without_defaults(plan) for name, plan in plans.items()}


def loaded(plans: Mapping[str, Any]) -> dict[str, StepPlan]:
    """The plans that `dumped` was made of."""
    return {name: _plan(kept) for name, kept in plans.items()}


def _without_defaults(plan: StepPlan) -> dict[str, Any]:
    kept = {each.name: getattr(plan, each.name) for each in fields(StepPlan)}
    kept = {name: value for name, value in kept.items() if value != getattr(NO_PLAN, name)}
    for name in ("order", "after"):
        if name in kept:
            kept[name] = list(kept[name])
    return kept


def _plan(kept: Mapping[str, Any]) -> StepPlan:
    read = {name: value for name, value in kept.items() if name != "warm"}
    for name in ("order", "after"):
        if name in read:
            read[name] = tuple(read[name])
    return StepPlan(**read)
