"""The periods that pages offer, and where they begin: the same on every page, so that a figure and its list agree."""

from __future__ import annotations

from admin.sources import Sources
from store.decisions.rollups import HOUR_S, MINUTE_S

SPANS = {"hour": (3600, MINUTE_S), "day": (86_400, HOUR_S), "week": (7 * 86_400, HOUR_S)}
"""Seconds by name, and the width of a bar in seconds."""


def since_s(span: str, now_s: float) -> int:
    """When the period begins, Unix seconds: the beginning of its first bar. Raises KeyError for a name not in SPANS."""
    seconds, width_s = SPANS[span]
    return int(now_s - seconds) // width_s * width_s


def fitting(sources: Sources, now_s: float) -> str:
    """Where nothing is asked for: a day, or an hour where the gateway has answered for less than that."""
    first_s = sources.rollups.first_s()
    return "hour" if first_s is not None and first_s >= now_s - SPANS["hour"][0] else "day"
