"""The periods that pages offer, and where they begin: the same on every page, so that a figure and its list agree."""

from __future__ import annotations

from admin.sources import Sources
from store.sums import HOUR_S, MINUTE_S

SPANS = {
    "15min": (900, MINUTE_S),
    "hour": (3600, MINUTE_S),
    "day": (86_400, HOUR_S),
    "week": (7 * 86_400, HOUR_S),
}
"""Seconds by name, and the width of a bar in seconds."""


def since_s(span: str, now_s: float) -> int:
    """When the period begins, Unix seconds: the beginning of its first bar. Raises KeyError for a name not in SPANS."""
    seconds, width_s = SPANS[span]
    return int(now_s - seconds) // width_s * width_s


def fitting(sources: Sources, now_s: float, *spans: str) -> str:
    """Where nothing is asked for: the first of `spans` that holds all that the gateway has answered, else the last."""
    first_s = sources.rollups.first_s()
    return next(
        (span for span in spans if first_s is not None and first_s >= now_s - SPANS[span][0]), spans[-1]
    )
