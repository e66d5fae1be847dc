"""Bars of a waterfall, placed on the server: pages may not have styles of their own. Units of a width of 1000."""

from __future__ import annotations

from typing import Any

_WIDE = 1000
_TICKS = 5


def ticks(span_s: float) -> list[dict[str, Any]]:
    """Where times are written above the bars."""
    return [{"x": _WIDE * n // _TICKS, "ms": 1000 * span_s * n / _TICKS} for n in range(_TICKS)]


def bar(phase: str, from_s: float, seconds: float, span_s: float) -> dict[str, Any]:
    """A bar of a phase, which names its colour; wide enough to be seen."""
    return {"phase": phase, "x": place(from_s, span_s), "width": max(1, place(seconds, span_s))}


def place(seconds: float, span_s: float) -> int:
    """How far to the right a time is."""
    return round(_WIDE * seconds / span_s) if span_s > 0 else 0
