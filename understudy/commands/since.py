"""Moments as people write them on the command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import click

_AGO = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)([dh])")


def moment(option: str, text: str | None, now_s: float) -> float | None:
    """Seconds since 1970 of `7d` or `24h` ago, or of a date or time in ISO form, which is UTC unless it says otherwise.

    None for None. Raises click.BadParameter that names the option.
    """
    if text is None:
        return None
    if ago := _AGO.fullmatch(text):
        return now_s - float(ago[1]) * {"d": 86_400.0, "h": 3_600.0}[ago[2]]
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text[:40]!r}: write 7d, 24h, or a date such as 2026-01-31", param_hint=option
        ) from None
