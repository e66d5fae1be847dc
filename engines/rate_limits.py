"""How much of its rate limit an upstream says is left, from the headers hosted APIs send with every answer."""

from __future__ import annotations

from collections.abc import Mapping

_PAIRS = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-limit-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-limit-tokens"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-limit"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-limit"),
    ("ratelimit-remaining", "ratelimit-limit"),
)


def share_left(headers: Mapping[str, str]) -> float | None:
    """The smallest share, 0 to 1, that any limit has left; None when the upstream tells of none."""
    shares = []
    for remaining, limit in _PAIRS:
        left, most = _number(headers.get(remaining)), _number(headers.get(limit))
        if left is not None and most:
            shares.append(max(0.0, min(1.0, left / most)))
    return min(shares, default=None)


def _number(text: str | None) -> float | None:
    if text is None or not text.strip().isascii() or not text.strip().isdigit():
        return None
    return float(text)
