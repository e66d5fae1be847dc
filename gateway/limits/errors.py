"""The refusals of limits, as the SDKs of OpenAI's API understand them."""

from __future__ import annotations

from collections.abc import Mapping

from engines.errors import RequestError
from store.people.allowance import CONCURRENCY, NANO, USD, Window

REQUESTS, TOKENS = "requests", "tokens"
"""Kinds of windows of a minute."""
_PER = {"day": "today", "week": "this week", "month": "this month", "total": "in all"}


class LimitReached(RequestError):
    """A limit does not allow the request now. `headers` go with the answer. `at_once`: it is one of requests under way."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        retry_after_s: float | None,
        may_retry: bool = True,
        at_once: bool = False,
    ) -> None:
        super().__init__(message, status=status, code=code, retry_after_s=retry_after_s)
        self.at_once = at_once
        # SDKs retry a 429 twice; of a budget that is spent, that is three requests for nothing.
        self.headers: Mapping[str, str] = {} if may_retry else {"x-should-retry": "false"}

    @property
    def passes(self) -> bool:
        """Whether waiting brings room."""
        return self.code == _RATE


_RATE = "rate_limit_exceeded"


def rate_limited(label: str, kind: str, limit: int, need: int, retry_after_s: float) -> LimitReached:
    """Too many requests or tokens in a minute, or requests at once."""
    if kind == CONCURRENCY:
        what = f"has {limit} requests under way, which is its limit at once"
    else:
        what = f"has reached its limit of {limit} {kind} per minute"
        if kind == TOKENS:
            what += f", and this request may take {need}"
    return LimitReached(
        _sentence(f"{label} {what}. Please try again in {max(1, round(retry_after_s))}s."),
        status=429,
        code=_RATE,
        retry_after_s=max(1.0, retry_after_s),
        at_once=kind == CONCURRENCY,
    )


def too_much_for_the_minute(label: str, limit: int, need: int) -> RequestError:
    """A request that no minute has room for: trying again changes nothing."""
    return RequestError(
        _sentence(
            f"{label} may use {limit} tokens per minute, and this request may take {need}: send less, or lower its "
            "max_tokens."
        ),
        code="tokens_per_minute_exceeded",
    )


def budget_reached(label: str, window: Window, limit: int, need: int, *, spent: bool) -> LimitReached:
    """Too few dollars are left. `spent`: they are spent; else requests under way have reserved them."""
    when = _PER[window.kind.removeprefix(USD)]
    told = _sentence(f"{label} may spend {_dollars(limit)} {when}")
    if not spent:
        return LimitReached(
            f"{told}, and requests under way have reserved what is left of it. Please try again in 1s.",
            status=429,
            code=_RATE,
            retry_after_s=1.0,
            at_once=True,
        )
    return LimitReached(
        f"{told}, and less is left of it than the {_dollars(need)} that this request may cost. A lower max_tokens lowers "
        "what it may cost.",
        status=429,
        code="insufficient_quota",
        retry_after_s=None,
        may_retry=False,
    )


def blind() -> LimitReached:
    """What is left of a budget cannot be told, since the store fails."""
    return LimitReached(
        "What is left of this key's budget cannot be told now, because the gateway's store fails.",
        status=503,
        code="limits_unavailable",
        retry_after_s=1.0,
    )


def unpriced(label: str, model: str) -> RequestError:
    """A budget, and a model whose price nobody knows."""
    return RequestError(
        f"The dollars that {label} may spend are limited, and '{model[:100]}' has no price here.",
        status=403,
        code="unpriced",
        param="model",
    )


def _sentence(text: str) -> str:
    """It with a capital at its start; names in it stay as they are."""
    return text[:1].upper() + text[1:]


def _dollars(nano: int) -> str:
    usd = nano / NANO
    return f"${usd:,.2f}" if usd >= 1 or nano == 0 else f"${usd:.6f}"
