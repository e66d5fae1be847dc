"""When an upstream wants to be asked again (RFC 9110 §10.2.3, and OpenAI's finer headers)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds to wait by `retry-after-ms` or `Retry-After` (seconds or a date); None when not said or not understood."""
    if (milliseconds := headers.get("retry-after-ms")) is not None:
        seconds = _number(milliseconds)
        if seconds is not None:
            return seconds / 1000
    value = headers.get("Retry-After")
    if value is None:
        return None
    seconds = _number(value)
    if seconds is not None:
        return seconds
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - (now or datetime.now(UTC))).total_seconds())


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < 1e9 else None
