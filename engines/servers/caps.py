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
        """Tells whether there is a limit at all."""
        return self.tokens is not None or self.latency_tokens is not None


class Held:
    """The tokens that are in flight at one place, under its caps.

    A request of class latency does not wait until others have drained: among its kind the lower cap holds, beside the
    others the higher. What is larger than a cap enters alone.
    """

    __slots__ = ("caps", "requests", "requests_of", "to_compute_tokens", "tokens", "tokens_of")

    def __init__(self, caps: Caps) -> None:
        self.caps = caps
        self.requests = self.tokens = 0
        self.requests_of = [0] * len(Rank)
        self.tokens_of = [0] * len(Rank)
        """The same by class."""
        self.to_compute_tokens = 0
        """Of the prompts that are under way there, what is believed not to be computed yet."""

    @property
    def latency(self) -> int:
        """How many requests of class latency are under way."""
        return self.requests_of[Rank.LATENCY]

    def fits(self, rank: Rank, tokens: int) -> bool:
        """Tells whether a request may enter now."""
        return not self.requests or self.excess(rank, tokens) <= 0

    def excess(self, rank: Rank, tokens: int) -> int:
        """How many tokens have to leave before a request fits beside the rest; 0 or less where it does."""
        caps, excess = self.caps, 0
        if caps.tokens is not None:
            excess = self.tokens + tokens - caps.tokens
        if caps.latency_tokens is not None and self.requests_of[0]:
            beside = self.tokens_of[0] if rank is Rank.LATENCY else self.tokens
            excess = max(excess, beside + tokens - caps.latency_tokens)
        return excess

    def enters(self, rank: Rank, tokens: int, to_compute_tokens: int = 0) -> None:
        """A request began to be under way."""
        self.requests += 1
        self.tokens += tokens
        self.requests_of[rank] += 1
        self.tokens_of[rank] += tokens
        self.to_compute_tokens += to_compute_tokens

    def computed(self, to_compute_tokens: int) -> None:
        """Its answer has begun, or it ended before: its prompt is to be computed no longer."""
        self.to_compute_tokens -= to_compute_tokens

    def leaves(self, rank: Rank, tokens: int) -> None:
        """It ended; the arguments are those it entered with."""
        self.requests -= 1
        self.tokens -= tokens
        self.requests_of[rank] -= 1
        self.tokens_of[rank] -= tokens
