"""The `Cache-Status` response header (RFC 9211). The key is never told: it would let a client probe what others asked."""

from __future__ import annotations

from store.records import ExactAnswer

MISS = "understudy; fwd=miss"
COLLAPSED = "understudy; fwd=miss; collapsed"
BYPASS = "understudy; fwd=bypass"


def hit_status(hit: ExactAnswer, age_s: int) -> str:
    """The header of an answer from memory."""
    return f"understudy; hit; ttl={max(0, int(hit.ttl_s) - age_s)}; detail=exact"
