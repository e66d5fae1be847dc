"""Holds the limits of judging as plain values that the settings become."""

from __future__ import annotations

from dataclasses import dataclass

from learning.outcomes.judge import TIE_BAND


@dataclass(frozen=True, slots=True)
class JudgingLimits:
    """The amount, the form and the price of judging."""

    share_offloaded: float
    """The share of requests that another engine than the reference answered, whatever hangs on it."""
    share_reference: float
    """The share of requests that the reference answered."""
    others: int
    """Further ways of answering that are asked and judged beside the served one: counterfactuals."""
    samples: int
    """Votes per order."""
    max_in_flight: int
    verdict_tokens: int
    max_tokens: int = 1024
    """The bound of an answer that is asked for comparison."""
    tie: float = TIE_BAND
    max_waiting: int = 200
    """Requests that may wait to be judged."""
    pause_above: float = 0.8
    """Utilisation of an engine above which nothing is asked."""
    patience_s: float = 600.0
    """Seconds that a sample waits for that to end before it is let go."""
    deadline_s: float = 300.0
    """For all requests of one sample."""
    characters: int = 8000
    """The characters of the request, and of each answer, that the judge is shown."""
    max_bytes: int = 1024 * 1024
    """The bytes of a request with its answer, a stream's framing included; larger ones are not judged."""
    max_waiting_bytes: int = 64 * 1024 * 1024
    """The bytes of all that wait: they do so in memory."""
