"""The mock's settings, which a request's own `x-mock-*` headers override."""

from __future__ import annotations

from dataclasses import dataclass

from loadtest.distributions import Distribution
from loadtest.mock.faults import Window

_AT_ONCE = Distribution("fixed", 0.0)
_ABOUT_A_KIBIBYTE = Distribution("fixed", 128.0)


@dataclass(frozen=True)
class MockSettings:
    """Delays are in milliseconds, `capacity` in requests served at once (0: no limit)."""

    ttft_ms: Distribution = _AT_ONCE
    token_ms: Distribution = _AT_ONCE
    tokens: Distribution = _ABOUT_A_KIBIBYTE
    capacity: int = 0
    max_queue: int = 0  # requests allowed to wait for a slot; 0: no limit
    models: tuple[str, ...] = ("mock-small", "mock-large")
    windows: tuple[Window, ...] = ()
    seed: int = 0


@dataclass(slots=True)
class Counters:
    """What the mock has counted so far; served at /mock/counters."""

    connections: int = 0
    requests: int = 0
    answered: int = 0
    streams: int = 0
    faults: int = 0
    rejected: int = 0  # queue full
    client_gone: int = 0  # the client left before its answer was complete
    in_flight: int = 0
    in_flight_max: int = 0
    queued: int = 0
    queued_max: int = 0
