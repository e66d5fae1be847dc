"""OpenAI's headers that tell how much of a rate limit is left: `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeVar

from aiohttp import web

R = TypeVar("R", bound=web.StreamResponse)


class Tells(Protocol):
    """A request's ticket: see gateway.limits.limiter.Ticket."""

    def headers(self) -> dict[str, str]: ...
    def lend(self) -> None: ...
    def leave(self) -> None: ...
    def told(self, response: R) -> R: ...
    async def back(self) -> None: ...


TICKET = web.RequestKey("understudy.limits", Tells)
"""Where a request keeps its ticket (gateway.limits.limiter)."""


def lend_place(request: web.BaseRequest) -> None:
    """The request waits for steps from here on: its place among those under way is theirs."""
    if (ticket := request.get(TICKET)) is not None:
        ticket.lend()


class Rate(NamedTuple):
    """How one limit per minute stands."""

    limit: int
    remaining: int
    reset_s: float
    """Until the window ends."""


def rate_headers(rates: Mapping[str, Rate]) -> dict[str, str]:
    """`rates` by what they limit: requests, tokens."""
    told: dict[str, str] = {}
    for kind, (limit, remaining, reset_s) in rates.items():
        told[f"x-ratelimit-limit-{kind}"] = str(limit)
        told[f"x-ratelimit-remaining-{kind}"] = str(max(0, remaining))
        told[f"x-ratelimit-reset-{kind}"] = duration(reset_s)
    return told


def duration(seconds: float) -> str:
    """As OpenAI writes one: `120ms`, `8.64s`, `6m0s`, `1h2m0s`."""
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))}ms"
    if seconds < 60:
        return f"{seconds:.2f}".rstrip("0").rstrip(".") + "s"
    minutes, rest_s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest_s}s" if hours else f"{minutes}m{rest_s}s"
