"""A request's answer as it goes by: kept for the recorder while it is being sent, within a limit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engines.chat import ChatRequest
from engines.engine import Price
from engines.finished import Assembled
from gateway.controls import Controls
from router.plan import Attempt, Plan

if TYPE_CHECKING:
    from gateway.reuse.stage import SemanticStage


class Kept:
    """The chunks of an answer, up to a limit; past it they are let go and the answer is not remembered."""

    __slots__ = ("_limit_bytes", "_size_bytes", "chunks", "overflowed")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self.chunks: list[bytes] = []
        self.overflowed = False

    @property
    def size_bytes(self) -> int:
        """How much was fed so far, kept or not."""
        return self._size_bytes

    def feed(self, chunk: bytes) -> None:
        """Keep a chunk."""
        if self.overflowed:
            return
        self._size_bytes += len(chunk)
        if self._size_bytes > self._limit_bytes:
            self.overflowed = True
            self.chunks.clear()
        else:
            self.chunks.append(chunk)


@dataclass(slots=True)
class Answer:
    """Everything the recorder needs of one finished request."""

    chat: ChatRequest
    controls: Controls
    plan: Plan | None
    kept: Kept
    endpoint: str
    exact_key: bytes | None = None
    """Where the answer may be kept for exact repeats; None when it may not."""
    attempt: Attempt | None = None
    """What was asked in the end; None before any engine answered."""
    from_reference: bool = False
    """The model's reference engine answered, without examples of ours."""
    remember: bool = True
    """Whether the model's answers may become examples at all."""
    price: Price = field(default_factory=Price)
    """Of the engine that answered, or that said the end of it."""
    broken_off: list[tuple[Price, int]] = field(default_factory=list)
    """Engines that broke off before it: the price of each, and how many tokens of the answer it said."""
    reference_price: Price | None = None
    """Of the engine that would have answered without us; None where there is no such price."""
    content_type: str = ""
    identity: bool = True
    """The answer's bytes are not compressed."""
    status: int = 0
    complete: bool = False
    """The body came to its end."""
    assembled: Assembled | None = None
    """The answer as one object, once somebody put it together."""
    kept_at_once: bool = False
    """The keepers that must not wait have had it already."""
    hit: bytes | None = None
    """The stored body that was replayed, for a hit."""
    semantic: SemanticStage | None = None
    """Its part in reusing answers for similar questions; None without one."""
