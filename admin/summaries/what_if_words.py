"""What a change of routing settings would bring, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.formats import decimal

Told = Mapping[str, float] | None


def sentence(effect: Mapping[str, Any], chosen: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Such as "preference 0.70 instead of 0.50: 41 → 15 % offloaded (13 to 17), quality 98.9 → 99.1 % (98 to 100), ...".

    Where nothing is changed, what the settings in force bring. The intervals are those behind the arrow.
    """
    changed = [name for name in ("preference", "theta", "m") if name in now and chosen[name] != now[name]]
    before, after = effect["now"], effect["then"]
    figures = [
        _figure(before["offloaded"], after["offloaded"], 100, 0, "", " % offloaded", bool(changed)),
        "quality " + _quality(effect, bool(changed)),
        _figure(before["cost_usd"], after["cost_usd"], 1000, 2, "$", " per 1,000 requests", bool(changed)),
    ]
    head = (
        " and ".join(f"{name} {_value(chosen[name])} instead of {_value(now[name])}" for name in changed)
        if changed
        else "As it is set now"
    )
    return f"{head}: {', '.join(figures)}."


def _quality(effect: Mapping[str, Any], changed: bool) -> str:
    before, after = effect["now"]["quality"], effect["then"]["quality"]
    said = _figure(before, after, 100, 1, "", " %", changed)
    if after is None and effect["never_offloaded"]:
        said += f" ({100 * effect['never_offloaded']:.0f} % of requests were never offloaded)"
    elif after is None and effect["not_known"]:
        said += f" (for {100 * effect['not_known']:.0f} % of requests nothing so near was looked for)"
    return said


def _figure(before: Told, after: Told, times: float, digits: int, sign: str, unit: str, changed: bool) -> str:
    """`before → after unit (low to high)`; small amounts of money keep digits that count."""
    known = [each["value"] * times for each in (before, after) if each is not None]
    if sign and known and max(known) < 0.1:
        digits = 4

    def number(value: float) -> str:
        return decimal(value * times, digits)

    def shown(told: Told) -> str:
        return "not known" if told is None else sign + number(told["value"])

    then = shown(after)
    if after is not None:
        then += f"{unit} ({number(after['low'])} to {number(after['high'])})"
    if not changed:
        return then
    # Where what comes is not known, what was still needs its unit.
    return f"{shown(before)}{unit if after is None and before is not None else ''} → {then}"


def _value(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
