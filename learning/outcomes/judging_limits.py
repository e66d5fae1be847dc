"""How much is judged, how, and at what price: plain values that the settings become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from learning.outcomes.judge import TIE_BAND


@dataclass(frozen=True, slots=True)
class JudgingLimits:
    """How much is judged, how, and at what price."""

    share_offloaded: float = 0.05
    """Of requests that another engine than the reference answered."""
    share_reference: float = 0.02
    """Of requests that the reference answered."""
    others: int = 1
    """Further ways of answering that are asked and judged beside the served one: counterfactuals."""
    samples: int = 1
    """Votes per order."""
    tie: float = TIE_BAND
    max_usd_per_day: float = 5.0
    """Of this process."""
    max_usd_per_hour: float | None = None
    """The same; None for no other limit than the day's."""
    max_in_flight: int = 4
    max_queued: int = 200
    pause_above: float = 0.8
    """Utilisation of an engine above which nothing is asked."""
    patience_s: float = 600.0
    """How long a sample waits for that to end before it is let go."""
    max_tokens: int = 1024
    """Of an answer that is asked for comparison."""
    verdict_tokens: int = 300
    deadline_s: float = 300.0
    """For all requests of one sample."""
    characters: int = 8000
    """Of the request, and of each answer, that the judge is shown."""
    max_bytes: int = 1024 * 1024
    """Of a request with its answer, a stream's framing included; larger ones are not judged."""
    max_waiting_bytes: int = 64 * 1024 * 1024
    """Of all that wait: they do so in memory."""
    judge_fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the body that the judge is sent, such as a temperature."""
