"""Formats numbers, prices, durations and times for templates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Any

import orjson
from markupsafe import Markup

from admin.documentation import as_html

NOTHING = "–"
_THIN = "\u202f"


_UNNAMED = {"default": "default (no credential)"}
"""Of requests without a credential."""


def tenant_label(names: Mapping[str, str], tenant: str) -> str:
    """The operator's name of a tenant; of one that has none, the beginning of its id, which is as long as a hash."""
    return names.get(tenant) or _UNNAMED.get(tenant, tenant[:12])


def count(value: float | None) -> str:
    """12 345, with thin spaces that do not break."""
    return NOTHING if value is None else f"{value:,.0f}".replace(",", _THIN)


def percent(share: float | None, digits: int = 1) -> str:
    """A share of 0 to 1 as 12.3 %."""
    return NOTHING if share is None else f"{share * 100:.{digits}f}{_THIN}%"


_NO_DOLLARS = 5e-10
"""Less is what sums of fractions leave where nothing is."""


def usd(value: float | None) -> str:
    """Dollars: cents from one dollar on, three significant digits below."""
    if value is None:
        return NOTHING
    sign, size = ("−" if value < 0 else ""), abs(value)
    if size >= 1:
        return f"{sign}${size:,.2f}".replace(",", _THIN)
    if size < _NO_DOLLARS:
        return "$0"
    digits = min(12, 2 - math.floor(math.log10(size)))
    return f"{sign}${size:.{digits}f}"


def milliseconds(value: float | None) -> str:
    """0.03 ms, 3.2 ms, 250 ms, 1.2 s, 3 min."""
    if value is None:
        return NOTHING
    if 0 < value < 0.1:
        return f"{value:.2f}{_THIN}ms"
    if value < 10:
        return f"{value:.1f}{_THIN}ms"
    if value < 1000:
        return f"{value:.0f}{_THIN}ms"
    if value < 120_000:
        return f"{value / 1000:.1f}{_THIN}s"
    return f"{value / 60_000:.0f}{_THIN}min"


def decimal(value: float | None, digits: int = 3) -> str:
    """A number with this many decimals; one that rounds to 0 has no sign."""
    if value is None:
        return NOTHING
    text = f"{abs(value):.{digits}f}"
    return f"−{text}" if value < 0 and float(text) else text


def figure(value: Any) -> str:
    """Any number, with four significant digits of a fraction."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return count(value) if isinstance(value, int) else f"{value:.4g}"


def size(value: float | None) -> str:
    """Bytes as B, KiB, MiB or GiB."""
    if value is None:
        return NOTHING
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f}{_THIN}{unit}" if unit == "B" else f"{value:.1f}{_THIN}{unit}"
        value /= 1024
    return f"{value:.1f}{_THIN}GiB"


def when(at_s: float | None, zone: tzinfo = UTC) -> Markup | str:
    """A time as a `time` element in the pages' time zone, which every page names once; a script adds how long ago it was."""
    return _time(at_s, zone, "seconds")


def when_ms(at_s: float | None, zone: tzinfo = UTC) -> Markup | str:
    """The same with milliseconds."""
    return _time(at_s, zone, "milliseconds")


def field_time(at_s: float | None, zone: tzinfo = UTC) -> str:
    """A time as the value of a `datetime-local` field, which `Asked.time` reads."""
    return "" if at_s is None else datetime.fromtimestamp(at_s, zone).strftime("%Y-%m-%dT%H:%M:%S")


def _time(at_s: float | None, zone: tzinfo, precision: str) -> Markup | str:
    if at_s is None:
        return NOTHING
    stamp = datetime.fromtimestamp(at_s, UTC).isoformat(timespec=precision).replace("+00:00", "Z")
    moment = datetime.fromtimestamp(at_s, zone).replace(tzinfo=None)
    return Markup('<time datetime="{}">{}</time>').format(stamp, moment.isoformat(" ", precision))


def pretty(value: Any) -> str:
    """A text as it is, anything else as indented JSON."""
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def filters(zone: tzinfo = UTC) -> dict[str, Any]:
    """Functions by their names in templates; times are written in `zone`."""
    return {
        "count": count,
        "percent": percent,
        "usd": usd,
        "ms": milliseconds,
        "decimal": decimal,
        "figure": figure,
        "size": size,
        "pretty": pretty,
        "when": partial(when, zone=zone),
        "when_ms": partial(when_ms, zone=zone),
        "field_time": partial(field_time, zone=zone),
        "documentation": as_html,
    }
