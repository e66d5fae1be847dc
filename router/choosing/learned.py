"""What a tenant's requests for one model are decided with: everything learnt so far, whole and of fixed versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from router.choosing.bandit import Bandit
from router.examples.count import ExampleCounts
from router.examples.scorer import Scoring


@dataclass(frozen=True, slots=True)
class Learned:
    """Swapped as a whole, never changed. None: not learnt yet, or broken and gone without."""

    scorer: Scoring | None = None
    bandit: Bandit | None = None
    counts: ExampleCounts | None = None
    offload_cap: float = 1.0
    """Share of requests that may go to other engines than the reference: what the quality floor leaves."""
    version: str = "none"
    """Of all of it, for the log."""


class LearnedBooks(Protocol):
    """Where a policy looks up what was learnt."""

    def of(self, tenant: str) -> Learned:
        """What to decide this tenant's requests with. Never waits: what is still being read is gone without."""
        ...
