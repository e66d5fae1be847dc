"""Frozen rows of replay: runs, their steps, what was asked on the way, and what it cost. Nothing here knows SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RunState = Literal["wanted", "running", "paused", "interrupted", "done", "stopped", "failed", "undone"]
"""wanted: somebody asked for it. interrupted: its process ended before it did. stopped: a person or a budget said so."""
StepKind = Literal["distil", "expand"]
StepState = Literal["planned", "asked", "paid", "done", "skipped"]
"""asked: something was asked for it. paid: everything it needs is bought, and it is not applied yet."""
AskState = Literal["asked", "paid", "failed", "unknown"]
"""unknown: the process ended while it was under way, so nobody knows what it cost."""


@dataclass(frozen=True, slots=True)
class ReplayBudget:
    """What a run may spend; None is no limit."""

    usd: float | None = None
    tokens: int | None = None
    """Prompt and completion together."""
    seconds: float | None = None
    """Of engines' time: the latencies of its requests added up, so that a pause costs nothing."""


@dataclass(frozen=True, slots=True)
class ReplaySpent:
    """What was spent. What is unknown is an upper bound, of requests that were under way when a process ended."""

    usd: float = 0.0
    tokens: int = 0
    seconds: float = 0.0
    unknown_usd: float = 0.0
    unknown_tokens: int = 0

    @property
    def most_usd(self) -> float:
        """What was spent at most."""
        return self.usd + self.unknown_usd


@dataclass(frozen=True, slots=True)
class ReplayRun:
    """One run."""

    id: int
    tenant: str
    """Whose examples; empty for every tenant's."""
    asked_by: str
    """command, schedule or admin."""
    state: RunState
    created_at_s: float
    started_at_s: float | None
    ended_at_s: float | None
    budget: ReplayBudget
    stop_asked: bool
    note: str
    """Why it ended or what it waits for; no text of any example."""
    by_user: str = ""
    """Who asked for it on the admin pages."""

    @property
    def shown_state(self) -> str:
        """The state by the name that people are told."""
        return "reverted" if self.state == "undone" else self.state


@dataclass(frozen=True, slots=True)
class NewStep:
    """A line of a plan. What is expected is what the planner reckoned."""

    tenant: str
    kind: StepKind
    example_id: int
    gain: float
    expected_effect: float
    expected_usd: float
    expected_tokens: int
    expected_s: float


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """A line of a run's plan, and what became of it."""

    id: int
    run_id: int
    position: int
    plan: NewStep
    state: StepState
    result: str
    """A code: replaced, kept, added and so on; empty while it is not done."""
    detail: str
    """JSON: figures and codes."""
    changed_at_s: float


@dataclass(frozen=True, slots=True)
class NewAsk:
    """A request that is about to be sent to an engine."""

    run_id: int
    step_id: int
    tenant: str
    key: str
    """What it is for within its step; a key that was paid for is never asked again."""
    engine: str
    purpose: str
    """answer, generate or verdict."""
    most_usd: float
    most_tokens: int


@dataclass(frozen=True, slots=True)
class SpendLine:
    """What replay spent on one engine for one purpose."""

    engine: str
    purpose: str
    asks: int
    spent: ReplaySpent


CHANGED = frozenset({"replaced", "expanded"})
"""Results of steps that changed the bank."""


@dataclass(frozen=True, slots=True)
class Changed:
    """An example that a run changed, and when."""

    example_id: int
    at_s: float


@dataclass(frozen=True, slots=True)
class JudgedUse:
    """A judged answer that was made with examples."""

    at_s: float
    """When its request came."""
    example_ids: tuple[int, ...]
    quality: float
    probability: float
    """With which it was picked for judging."""


@dataclass(frozen=True, slots=True)
class ChargedUse:
    """A request that an engine answered with examples, and what that saved."""

    at_s: float
    example_ids: tuple[int, ...]
    saved_usd: float
    """What the reference engine would have charged, less what was paid."""
