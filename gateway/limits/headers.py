"""OpenAI's headers that tell how much of a rate limit is left: `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from aiohttp import web


class Tells(Protocol):
    """What a request's answer tells of its limits."""

    def headers(self) -> dict[str, str]: ...


TICKET = web.RequestKey("understudy.limits", Tells)
"""Where a request keeps its ticket (gateway.limits.limiter)."""


class Rate(NamedTuple):
    """How one limit per minute stands."""

    limit: int
    remaining: int
    reset_s: float
    """Until the window ends."""


def rate_headers(rates: Mapping[str, Rate]) -> dict[str, str]:
    """`rates` by what they limit: requests, tokens."""
    return {
        f"x-ratelimit-{what}-{kind}": value
        for kind, rate in rates.items()
        for what, value in (
            ("limit", str(rate.limit)),
            ("remaining", str(max(0, rate.remaining))),
            ("reset", duration(rate.reset_s)),
        )
    }


def duration(seconds: float) -> str:
    """As OpenAI writes one: `120ms`, `8.64s`, `6m0s`, `1h2m0s`."""
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))}ms"
    if seconds < 60:
        return f"{seconds:.2f}".rstrip("0").rstrip(".") + "s"
    minutes, rest_s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest_s}s" if hours else f"{minutes}m{rest_s}s"
