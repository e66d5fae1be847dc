"""Limits of the tokens that an engine holds at once, or one of its replicas: the fewer it holds, the faster it decodes.

Decoding is bound by memory: the time of a step grows with the tokens of all requests in it. So the strictest request under
way decides how many there may be (Parrot, OSDI 2024, section 5.4).
"""

from __future__ import annotations

from dataclasses import dataclass

from engines.placement import Rank


@dataclass(frozen=True, slots=True)
class Caps:
    """Tokens in flight at most, prompts and answers together; None: no limit."""

    tokens: int | None = None
    latency_tokens: int | None = None
    """The same for what enters while a request of class latency is under way."""

    @property
    def any(self) -> bool:
        """Whether there is a limit at all."""
        return self.tokens is not None or self.latency_tokens is not None


class Held:
    """The tokens that are in flight at one place, under its caps.

    A request of class latency does not wait until others have drained: among its kind the lower cap holds, beside the
    others the higher. What is larger than a cap enters alone.
    """

    __slots__ = ("caps", "latency", "latency_tokens", "requests", "tokens")

    def __init__(self, caps: Caps) -> None:
        self.caps = caps
        self.requests = self.tokens = 0
        self.latency = self.latency_tokens = 0
        """Of class latency."""

    def fits(self, rank: Rank, tokens: int) -> bool:
        """Whether a request may enter now."""
        caps, is_latency = self.caps, rank is Rank.LATENCY
        if not self.requests:
            return True
        if caps.tokens is not None and self.tokens + tokens > caps.tokens:
            return False
        if caps.latency_tokens is None or not (is_latency or self.latency):
            return True
        if is_latency:
            return not self.latency or self.latency_tokens + tokens <= caps.latency_tokens
        return self.tokens + tokens <= caps.latency_tokens

    def enters(self, rank: Rank, tokens: int) -> None:
        """A request began to be under way."""
        self.requests += 1
        self.tokens += tokens
        if rank is Rank.LATENCY:
            self.latency += 1
            self.latency_tokens += tokens

    def leaves(self, rank: Rank, tokens: int) -> None:
        """It ended; the arguments are those it entered with."""
        self.requests -= 1
        self.tokens -= tokens
        if rank is Rank.LATENCY:
            self.latency -= 1
            self.latency_tokens -= tokens
