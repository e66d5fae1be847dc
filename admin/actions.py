"""What operators can do from the admin pages with engines, the embedder or the rules, which admin must not import."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from router.dials import Dials
from store.admission import Admission
from store.jobs.replay_records import NewStep, ReplayBudget
from store.records import Kind, Vector


class NotDone(Exception):
    """The action failed; the text is for the person and holds no content. `cost_usd` is what it cost nevertheless."""

    def __init__(self, message: str, cost_usd: float = 0.0) -> None:
        super().__init__(message)
        self.cost_usd = cost_usd


@dataclass(frozen=True, slots=True)
class OperatorFeedback:
    """An operator's feedback on one answer."""

    tenant: str
    request_id: str
    by: str
    """Name of the operator."""
    score: float | None = None
    thumb: str = ""
    """"up", "down" or empty."""
    comment: str = ""
    correction: str = ""
    """The answer as it should have been; it becomes a demonstration."""
    messages: Sequence[Mapping[str, Any]] | None = None
    """The conversation that the correction answers."""
    sampled: float | None = None
    """The probability with which a reviewer was shown the answer; None: it was nobody's sample."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An engine's answer to an operator."""

    engine: str
    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of testing one replica of an engine."""

    replica: str
    """As host:port; empty where it has one."""
    good: bool
    said: str
    """In words; no content, no key."""
    health_ms: float | None
    """How long the health check took; None where none was made."""
    answer_ms: float | None
    """How long the answer took; None where none came."""
    cost_usd: float
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Imported:
    """What came of the lines of a data set."""

    added: int
    known: int
    """There already, or more than once in it."""
    refused: Mapping[str, int]
    """Not admitted, by reason."""
    bad: int
    """Not understood."""
    problems: Sequence[str] = ()
    """Of the first lines that were not taken, in words without content."""


@dataclass(frozen=True, slots=True)
class OperatorActions:
    """The actions of this installation; None for one that it cannot do."""

    give_feedback: Callable[[OperatorFeedback], Awaitable[str]] | None = None
    """Stores feedback; returns the request id of the example made from a correction, or an empty text. Raises NotDone."""
    ask: Callable[[str, Sequence[Mapping[str, Any]], str], Awaitable[Reply]] | None = None
    """Sends messages to the named engine, which is asked for the model of that name if it has none of its own. Raises
    NotDone."""
    test: Callable[[str], Awaitable[Sequence[Tried]]] | None = None
    """Tests the named engine, each of its replicas: its health check, then one short answer. Raises NotDone."""
    embed: Callable[[str], Vector] | None = None
    """Embeds a text. Blocks. Raises NotDone."""
    embedding_version: Callable[[], str] = field(default=lambda: "")
    admission: Admission | None = None
    """The admission rules, for examples that are edited."""
    lenders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By tenant, the tenants whose examples it may use."""
    dials: Mapping[str, Dials] = field(default_factory=dict)
    """As configured, by served model; None for a dial that its policy does not have."""
    plan_replay: Callable[[str, ReplayBudget], Awaitable[Sequence[NewStep]]] | None = None
    """The steps of a run, best first, for a tenant (empty: all) and a budget. Asks no engine. Raises NotDone."""
    take_back_replay: Callable[[int], Awaitable[tuple[int, int, int]]] | None = None
    """Undoes a run; returns the numbers of answers restored, examples removed, and examples changed since and left alone.
    Raises NotDone."""
    import_lines: Callable[[str, str, Kind], Imported] | None = None
    """Takes lines of JSON, each a conversation with its answer last, as a tenant's examples of this kind, through admission.
    Blocks. Raises NotDone."""
    texts_kept: bool = True
    """Whether texts of requests are stored at all."""
