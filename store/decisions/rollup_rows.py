"""Sums over requests, as values: see store.decisions.rollups."""

from __future__ import annotations

from typing import NamedTuple


class RequestSums(NamedTuple):
    """Requests of one period that have their model, engine, outcome and use of examples in common."""

    start_s: int
    """Unix seconds; 0 where all periods are added up."""
    model: str
    """Empty for names that are not served here."""
    engine: str
    """Empty for an exact hit."""
    outcome: str
    with_examples: int
    requests: int
    cost_usd: float
    reference_cost_usd: float
    """What the reference engine would have charged for those it was reckoned for."""
    unreckoned: int
    """Requests it was not reckoned for."""
    unreckoned_usd: float
    """What those cost."""
    prompt_tokens: int
    completion_tokens: int
    total_ms: float
    overhead_ms: float
    streams: int
    """Answered streams; the next three are theirs."""
    first_chunk_ms: float
    streamed_ms: float
    """From the first chunk to the end, of streams with two tokens or more."""
    streamed_tokens: int
    """Tokens after the first, of the same."""


class StageSums(NamedTuple):
    """One stage of requests that one engine answered."""

    engine: str
    stage: str
    requests: int
    sum_ms: float


class LatencyCount(NamedTuple):
    """One bar of a histogram."""

    engine: str
    measure: str
    """total, first_chunk, or token: milliseconds per token after the first."""
    bucket: int
    requests: int
