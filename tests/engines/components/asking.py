"""Descriptions of components, and work for them."""

from __future__ import annotations

import time
from typing import Any

from engines.components.component import ComponentLimits, ComponentSpec, Kind, OverHTTP, Work

_LIMITS: dict[str, Any] = {
    "max_in_flight": 2,
    "max_queued": 100,
    "batch": None,
    "attempts": 2,
    "connect_s": 60.0,
    "answer_s": 60.0,
    "max_answer_bytes": 1_000_000,
    "breaker_failures": 5,
    "breaker_open_s": 10.0,
}


def limits(**changed: Any) -> ComponentLimits:
    return ComponentLimits(**{**_LIMITS, **changed})


def spec(kind: Kind, url: str = "", *, limits: ComponentLimits = limits(), **more: Any) -> ComponentSpec:  # noqa: B008
    """Named `c`. `http`: further fields of OverHTTP."""
    http = OverHTTP(url, **more.pop("http", {})) if url else None
    return ComponentSpec("c", kind, limits, http, **more)


def work(run: str = "run_1", depth: int = 1, step: str = "s", arrived_s: float | None = None) -> Work:
    return Work(run, "tenant", step, depth, time.monotonic() if arrived_s is None else arrived_s)
