"""What the steps of a workflow are carried out with, beside engines: components, kept collections, warming of prompts.

Interfaces only. What they raise for a step: engines.components.component.ComponentError, whose `code`, `message` and `status`
become the step's failure. Cancelling the awaiting task withdraws the work at once, whether it waits or is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from engines.components.component import Work
from numpy.typing import NDArray

from gateway.runs.live import LiveRun
from workflows.definition import Definition
from workflows.names import StepId, VariableId
from workflows.optimise import Profile

Hit = tuple[str, float, int]
"""Text, distance, place."""


class Components(Protocol):
    """The components of the configuration, by name; "" is the kind's default. See gateway.components."""

    async def embed(self, name: str, texts: Sequence[str], work: Work) -> NDArray[np.float32]:
        """Vectors of texts: float32[len(texts), d]."""
        ...

    async def rerank(self, name: str, query: str, texts: Sequence[str], work: Work) -> list[float]:
        """A score for each text."""
        ...

    async def search(self, name: str, query: str, k: int, work: Work) -> list[str]:
        """Texts that an outside search gives for a query, best first."""
        ...

    async def call(
        self, name: str, args: Mapping[str, Any], work: Work, idempotency_key: str, may_retry: bool
    ) -> str:
        """What a tool answers. `idempotency_key` is "" where it has no effects."""
        ...

    def offsets(self, name: str, text: str) -> list[tuple[int, int]]:
        """Where each token of a text begins and ends, in characters."""
        ...

    def effective_batch(self, name: str) -> int:
        """How many items one call of it takes to best throughput."""
        ...

    def identity(self, name: str) -> str:
        """Of its model: vectors of two identities are never compared."""
        ...


class RunIndex(Protocol):
    """An index of one run, or a kept collection of one tenant. Places are integers; ties in distance go by place."""

    async def add(self, place: int, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Take texts in at places from `place` on. Adding the same places again changes nothing."""
        ...

    async def search(self, vector: NDArray[np.float32], k: int) -> list[Hit]:
        """The nearest k."""
        ...


class Indexes(Protocol):
    """Makes indexes. A kept collection's rows are committed before `add` returns."""

    def of_run(self, run: str) -> RunIndex:
        """An empty one in memory."""
        ...

    def collection(self, tenant: str, name: str, *, embedder: str, contributor: str, source: str) -> RunIndex:
        """A tenant's collection, made where there is none. `source` (run:step) makes adding it again change nothing.

        Raises ComponentError where it holds vectors of another embedder's identity.
        """
        ...


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
    definition: Callable[[str, str, Mapping[str, Any]], Definition]
    """Of a tenant, a workflow's name, and `Definition.source`: read again where a run is taken up. Raises DefinitionError where
    what it refers to is no longer there."""
    warming: Warming = field(default_factory=NoWarming)
