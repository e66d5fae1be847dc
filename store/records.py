"""Frozen rows: what the store remembers, as values. Nothing here knows SQL."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]
"""A unit-length embedding, shape (dimensions,)."""


@dataclass(frozen=True, slots=True)
class NewExample:
    """A request and its answer, on their way into the bank."""

    tenant: str
    scope: str
    """Fingerprint of what must be equal for an example to apply (system prompt, response format): see router.digest."""
    question: str
    """The last user turn."""
    answer: str
    embedded_text: str
    """The text the vector stands for; kept so that a new embedder can re-embed."""
    vector: Vector | None
    """None when the embedder was late or broken; a background job fills it in."""
    embedding_version: str
    source_engine: str
    request_id: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Example:
    """One row of the bank. `seq` is its place in the log: workers fold rows into their index in this order."""

    id: int
    seq: int
    tenant: str
    scope: str
    question: str
    answer: str
    source_engine: str
    created_at_s: float
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """One step in the log of examples: an index that takes every step in order holds what the table holds."""

    seq: int
    tenant: str
    id: int
    vector: Vector | None
    """None when removed, and while the example still waits for its embedding."""
    removed: bool
    embedding_version: str


@dataclass(frozen=True, slots=True)
class Unembedded:
    """An example that waits for a vector."""

    id: int
    tenant: str
    embedded_text: str


@dataclass(frozen=True, slots=True)
class ExactAnswer:
    """A complete answer that may be replayed for the very same request."""

    body: bytes
    """The final JSON object, as the client would have got it without streaming."""
    content_type: str
    engine: str
    stored_at_s: float
    usage_estimated: bool = False
    """The engine told no usage; whoever needs one gets an estimate."""
    ttl_s: float = 86400.0
    """For how long after `stored_at_s` it may be replayed."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """What happened to one request: one row of the log, enough to explain it and to evaluate another policy on it."""

    id: str
    tenant: str
    started_at_s: float
    endpoint: str
    model: str
    engine: str
    """Empty for an exact hit: no engine was asked."""
    outcome: str
    """hit | answered | upstream_error | failed | aborted"""
    status: int
    policy: str
    policy_version: str
    probability: float
    reason: str
    example_ids: tuple[int, ...]
    prompt_tokens: int
    completion_tokens: int
    usage_estimated: bool
    cost_usd: float
    total_ms: float
    first_chunk_ms: float | None
    overhead_ms: float
    stages_ms: str
    """JSON object: stage name to milliseconds."""


@dataclass(frozen=True, slots=True)
class Key:
    """One of the gateway's own API keys. The secret itself is shown once and never stored."""

    id: str
    tenant: str
    name: str
    prefix: str
    """First characters of the secret, so that a person can recognise it."""
    created_at_s: float
    revoked_at_s: float | None = None
    tenant_name: str = ""
    """What the operator calls the tenant; `tenant` is the id derived from it."""
