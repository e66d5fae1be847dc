"""An upstream tells its rate limits in headers of every answer: how much is left, and until when.

OpenAI's `x-ratelimit-*` and what others made of them, Anthropic's `anthropic-ratelimit-*`, and the IETF's `ratelimit-*`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple


class Told(NamedTuple):
    """One limit, as an answer told it."""

    left: float
    most: float
    reset_s: float | None
    """Seconds until it is full again; None where it was not told, or made no sense."""
    of_tokens: bool


def _openai(what: str) -> tuple[str, str, str, bool]:
    names = [f"x-ratelimit-{part}{what and '-'}{what}" for part in ("remaining", "limit", "reset")]
    return names[0], names[1], names[2], what == "tokens"


def _anthropic(what: str) -> tuple[str, str, str, bool]:
    names = [f"anthropic-ratelimit-{what}-{part}" for part in ("remaining", "limit", "reset")]
    return names[0], names[1], names[2], what.endswith("tokens")


_LIMITS = (
    _openai("requests"),
    _openai("tokens"),
    _openai(""),
    _anthropic("requests"),
    _anthropic("tokens"),
    _anthropic("input-tokens"),
    ("ratelimit-remaining", "ratelimit-limit", "ratelimit-reset", False),
)
_DURATION = re.compile(
    r"(?=.)(?:(\d{1,5})d)?(?:(\d{1,6})h)?(?:(\d{1,7})m(?!s))?(?:(\d{1,9}(?:\.\d{1,9})?)s)?(?:(\d{1,9}(?:\.\d{1,9})?)ms)?"
)
_UNITS_S = (86_400.0, 3600.0, 60.0, 1.0, 0.001)
_EPOCH_S = 1e8
"""No limit is reset in three years: larger numbers are points in time."""
_EPOCH_MS = 1e11
MOST_S = 31 * 86_400.0
"""A wait longer than the longest that anybody's limits last was not meant."""


def limits_told(headers: Mapping[str, str], now_s: float | None = None) -> list[Told]:
    """Every limit these headers tell of. `now_s`: Unix time."""
    told = []
    for remaining, limit, reset, of_tokens in _LIMITS:
        value = headers.get(remaining)
        if value is None:
            continue
        left, most = _number(value), _number(headers.get(limit))
        if left is not None:
            told.append(Told(left, most or 0.0, time_left_s(headers.get(reset), now_s), of_tokens))
    return told


def share_left(told: list[Told]) -> float | None:
    """The smallest share, 0 to 1, that any limit has left; None when the upstream tells of none."""
    return min((min(1.0, one.left / one.most) for one in told if one.most), default=None)


def exhausted_s(told: list[Told]) -> float | None:
    """Seconds until every limit that is used up is full again; None where none is, or nobody told until when."""
    return max((one.reset_s for one in told if one.left == 0 and one.reset_s is not None), default=None)


def time_left_s(text: str | None, now_s: float | None = None) -> float | None:
    """Seconds until the time a header names: `6m0s`, `1.5s`, `120ms`, seconds, Unix time in seconds or milliseconds,
    RFC 3339 or an HTTP date. None for the past, for what is over a month away and for what makes no sense."""
    if text is None or not text.isascii() or not (text := text.strip())[:1].isalnum() or len(text) > 64:
        return None
    if now_s is None:
        now_s = time.time()
    seconds = _seconds(text, now_s)
    return seconds if seconds is not None and 0 < seconds <= MOST_S else None


def _seconds(text: str, now_s: float) -> float | None:
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        return (
            number - now_s
            if _EPOCH_S <= number < _EPOCH_MS
            else number / 1000 - now_s
            if number >= _EPOCH_MS
            else number
        )
    if match := _DURATION.fullmatch(text):
        return sum(float(part) * unit for part, unit in zip(match.groups(), _UNITS_S, strict=True) if part)
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            at = read(text)
            return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() - now_s
        except (ValueError, OverflowError, TypeError, IndexError):
            continue
    return None


def _number(text: str | None) -> float | None:
    if text is None or len(text) > 18 or not (text := text.strip()).isascii() or not text.isdigit():
        return None
    return float(text)
