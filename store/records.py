"""Frozen rows: what the store remembers, as values. Nothing here knows SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]
"""A unit-length embedding, shape (dimensions,)."""

Kind = Literal["observed", "demonstration"]
"""Met in traffic, or given as the right answer by a person: an observation never takes a demonstration's place."""


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
    kind: Kind = "observed"
    contributor: str = ""
    """Opaque id of the key or user it came from, so that all of theirs can be removed; empty when unknown."""
    pinned: bool = False
    """Never evicted, and never overwritten by a twin."""
    served_from_s: float = 0.0
    """Quarantine: not returned for serving before this time (Unix seconds); 0 is at once."""
    quality: float | None = None
    """A judgement of this answer, 0 to 1, if there is one already."""
    neighbours: tuple[tuple[int, float], ...] = ()
    """(example id, cosine similarity) of the nearest of this tenant, among which a twin is looked for: see store.twins.

    Empty: the pair is kept as it is. Ids that are gone, or of another tenant or scope, are passed over.
    """


@dataclass(frozen=True, slots=True)
class Example:
    """One row of the bank. `seq` is its place in the log: workers fold rows into their index in this order.

    What decays is given with the time it was true at: store.accounting.decayed brings it to now.
    """

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
    request_id: str = ""
    embedding_version: str = ""
    kind: Kind = "observed"
    contributor: str = ""
    pinned: bool = False
    flagged: bool = False
    """It has a twin whose answer disagrees: the same question, two answers."""
    merged: int = 0
    """How many agreeing pairs were merged into this one."""
    served_from_s: float = 0.0
    size_bytes: int = 0
    """Its texts, its vector, and 1,024 for its row and its place in the index."""
    uses: int = 0
    last_used_at_s: float | None = None
    used: float = 0.0
    """Decayed use at `used_at_s`."""
    used_at_s: float = 0.0
    gain: float = 0.0
    """Decayed gain G(e) at `gain_at_s`."""
    gain_at_s: float = 0.0
    quality_sum: float = 0.0
    quality_count: int = 0
    """Judgements of this answer."""

    @property
    def quality(self) -> float | None:
        """The mean of the judgements, 0 to 1; None without any."""
        return self.quality_sum / self.quality_count if self.quality_count else None


@dataclass(frozen=True, slots=True)
class Admitted:
    """What became of a pair that was handed to the bank."""

    example: Example
    """The example that now stands for it."""
    outcome: Literal["added", "known", "merged", "replaced", "disagrees"]
    """known: this request was kept before. merged: an agreeing twin stands for it. replaced: it took the place of its
    twin's texts. disagrees: added, and flagged with its twin."""


@dataclass(frozen=True, slots=True)
class Totals:
    """How much a tenant has in the bank."""

    examples: int
    size_bytes: int


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
    erase: bool = False
    """Removed because somebody wanted it gone: its vector must leave memory and files soon, not only be passed over."""


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
