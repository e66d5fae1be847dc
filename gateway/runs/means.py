"""What the steps of a workflow are carried out with, beside engines: components, kept collections, warming of prompts.

Interfaces only. What they raise for a step is engines.components.component.ComponentError. Cancelling the awaiting task
withdraws the work at once, whether it waits or is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from engines.components.component import Components
from gateway.runs.indexes import Indexes
from gateway.runs.live import LiveRun
from store.decisions.usage import Used
from workflows.names import StepId, VariableId
from workflows.plan import Profile


class Warming(Protocol):
    """Pass 3 at run time; see gateway.runs.warming. For the event loop's thread; nothing of it waits."""

    def learned(self, run: LiveRun, variables: Iterable[VariableId]) -> None:
        """Values came (or the run began): prefixes that are known now may be computed, where their step is not asked yet."""
        ...

    def asked(self, run: LiveRun, step: StepId) -> None:
        """The real request of a step goes now: what warms for it and has not been sent is dropped."""
        ...

    def ended(self, run: LiveRun) -> None:
        """The run is over, lost or cancelled: what is under way for it ends at once."""
        ...


class NoWarming:
    """Warms nothing."""

    def learned(self, run: LiveRun, variables: Iterable[VariableId]) -> None:
        """See Warming."""

    def asked(self, run: LiveRun, step: StepId) -> None:
        """See Warming."""

    def ended(self, run: LiveRun) -> None:
        """See Warming."""


@dataclass(frozen=True, slots=True)
class Means:
    """What `Runs` takes to carry out workflows."""

    components: Components
    indexes: Indexes
    profile: Callable[[], Profile]
    """Of components and engines as they are now: what the passes go by."""
    warming: Warming = field(default_factory=NoWarming)
    in_use: AbstractContextManager[object] = field(default_factory=nullcontext)
    """Entered while a step is carried out, any number of times at once."""
    usd_per_item: Mapping[str, float] = field(default_factory=dict)
    """What components charge for a text, a search or a call, by name; 0 for those that are not in it."""
    book: Callable[[Used], object] | None = None
    """Takes what a component has charged; None: nobody sums it up."""
