"""Names the ways in which a client can want a variable."""

from __future__ import annotations

from enum import StrEnum


class Criteria(StrEnum):
    """The performance a get asks for."""

    LATENCY = "latency"
    """The whole value soon."""
    TTFT = "ttft"
    """Its first token soon."""
    THROUGHPUT = "throughput"
    """Some time; many of them cheaply."""
