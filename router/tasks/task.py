"""A task: requests of one tenant that differ in their input only, and whose answers are few distinct labels.

A student (engines.student) may answer it: Ramírez, Lindemann, Birch and Titov, "Cache & Distil" (2023).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Strategy = Literal["margin", "entropy", "committee", "coreset", "random", "front_loading"]
"""The way to choose which requests the teacher gets: router.tasks.strategies."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The bound of what may be asked of the teacher. Exactly one is set."""

    calls_per_day: int | None = None
    share: float | None = None
    """The share of the requests, 0 to 1."""
    usd_per_day: float | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One task of one tenant under one served model."""

    name: str
    """Unique among the tenant's tasks under the model."""
    tenant: str
    model: str
    labels: tuple[str, ...] = ()
    """Declared labels, as the teacher is to write them; empty: those that the teacher uses."""
    budget: Budget | None = None
    """None: as few calls as `max_loss` allows."""
    strategy: Strategy = "margin"
    threshold: float | None = None
    """Fixed uncertainty from which the teacher is asked; None: from the budget (a percentile), or from what is proven."""
    max_loss: float = 0.05
    """Largest share of the task's requests whose answer may differ from the teacher's."""
    paused: bool = False
    """True if the teacher answers everything; what it says is still learnt."""

    @property
    def slot(self) -> str:
        """The name under which versions of its student are published, in the place of a served model's."""
        return f"{self.model}/{self.name}"


@dataclass(frozen=True, slots=True)
class Posed:
    """A request as a task sees it."""

    task: Task
    input: str
    """The part of the request that it does not share with others of the task."""
    source: str = "configured"
    """The origin of the task: store.tasks.tasks.Source."""
    scope: str = ""
    """Fingerprint of the instructions, where they tell which requests belong to the task."""
