"""The nouns of deciding: what is asked, what could be sent along, and what was decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engines.chat import ChatRequest
from store.records import Example, Vector


@dataclass(frozen=True, slots=True)
class Ask:
    """A request as a policy sees it."""

    chat: ChatRequest
    tenant: str
    max_examples: int | None = None
    """The client's own limit; 0 forbids examples."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An example that might help, and how near its question is."""

    example: Example
    similarity: float
    """Cosine, -1 to 1."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One engine to ask, and what to ask it. None for `messages` sends the request as it came."""

    engine: str
    messages: Sequence[Mapping[str, Any]] | None = None
    examples: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A decision. Its first attempt is what was chosen; the others stand in should an engine fail before its first chunk."""

    attempts: tuple[Attempt, ...]
    policy: str
    policy_version: str
    reason: str
    """A short code, stable across versions: why this engine."""
    probability: float = 1.0
    """With which this choice was made; what off-policy evaluation needs."""
    embedded_text: str = ""
    vector: Vector | None = None
    """The request's embedding, when there was time for one."""
    neighbours: tuple[Candidate, ...] = ()
    """Nearest candidates, best first, chosen or not."""
    stages_s: dict[str, float] = field(default_factory=dict)
    """Seconds by stage of deciding."""
    bypassed: tuple[str, ...] = ()
    """Stages that were late or broken and were gone without."""
