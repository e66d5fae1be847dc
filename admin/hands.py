"""What the gateway does for the pages: things that need engines, the embedder or the rules, which admin must not import."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from router.dials import Dials
from store.admission import Admission
from store.jobs.replay_records import NewStep, ReplayBudget
from store.records import Vector


class NotDone(Exception):
    """It could not be done; the text is for the person and holds no content. What it cost all the same is in it."""

    def __init__(self, message: str, cost_usd: float = 0.0) -> None:
        super().__init__(message)
        self.cost_usd = cost_usd


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an operator says of one answer."""

    tenant: str
    request_id: str
    by: str
    """The operator's name."""
    score: float | None = None
    thumb: str = ""
    """up, down or nothing."""
    comment: str = ""
    correction: str = ""
    """What the answer should have been: it becomes a demonstration."""
    messages: Sequence[Mapping[str, Any]] | None = None
    """The conversation that a correction answers."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What an engine answered when an operator asked it."""

    engine: str
    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Hands:
    """None for what this installation cannot do."""

    say: Callable[[Verdict], Awaitable[str]] | None = None
    """Keeps feedback; gives the request id of the example that a correction became, or nothing. Raises NotDone."""
    ask: Callable[[str, Sequence[Mapping[str, Any]]], Awaitable[Reply]] | None = None
    """Asks the named engine these messages. Raises NotDone."""
    embed: Callable[[str], Vector] | None = None
    """A text's vector. Blocks. Raises NotDone."""
    embedding_version: Callable[[], str] = field(default=lambda: "")
    admission: Admission | None = None
    """The rules about secrets and private data, for examples that are edited."""
    lenders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Tenant to the tenants whose examples it may use."""
    dials: Mapping[str, Dials] = field(default_factory=dict)
    """As configured, by served model; None for a dial that its policy does not have."""
    plan_replay: Callable[[str, ReplayBudget], Awaitable[Sequence[NewStep]]] | None = None
    """(tenant or nothing for all, budget) to what a run would do, best first. Asks no engine. Raises NotDone."""
    take_back_replay: Callable[[int], Awaitable[tuple[int, int, int]]] | None = None
    """Undoes a run: answers restored, examples removed, changed since and left alone. Raises NotDone."""
    texts_kept: bool = True
    """Whether texts of requests are kept at all."""
