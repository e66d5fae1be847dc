"""What a change of routing settings would bring, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from admin.formats import decimal
from admin.words import ROUTING_SETTINGS

Told = Mapping[str, float] | None
_REPLAYED = ("preference", "theta", "m")
"""Settings whose effect is found by deciding anew."""


def sentence(
    effect: Mapping[str, Any],
    chosen: Mapping[str, Any],
    now: Mapping[str, Any],
    *,
    caps: Sequence[Mapping[str, Any]] = (),
    points: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Such as "preference 0.70 instead of 0.50: 41 → 15 % offloaded (13 to 17), quality 98.9 → 99.1 % (98 to 100), ...".

    Where nothing is changed, what the settings in force bring. The intervals are those behind the arrow. Of another number
    of examples a sentence of its own says what it brings, by `caps` and `points` (admin.summaries.what_if).
    """
    said = [_effect(effect, chosen, now)]
    if "max_examples" in now and chosen["max_examples"] != now["max_examples"]:
        others = any(name in now and chosen[name] != now[name] for name in _REPLAYED)
        said = [
            *(said if others else ()),
            _examples(chosen["max_examples"], now["max_examples"], caps, points),
        ]
    return " ".join(said)


def _effect(effect: Mapping[str, Any], chosen: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    changed = [name for name in _REPLAYED if name in now and chosen[name] != now[name]]
    before, after = effect["now"], effect["then"]
    figures = [
        _figure(before["offloaded"], after["offloaded"], 100, 0, "", " % offloaded", bool(changed)),
        "quality " + _quality(effect, bool(changed)),
        _figure(before["cost_usd"], after["cost_usd"], 1000, 2, "$", " per 1,000 requests", bool(changed)),
    ]
    head = (
        " and ".join(
            f"{ROUTING_SETTINGS[name][0]} {_value(chosen[name])} instead of {_value(now[name])}"
            for name in changed
        )
        if changed
        else "As it is set now"
    )
    return f"{head}: {', '.join(figures)}."


def _examples(
    wanted: int, now: int, caps: Sequence[Mapping[str, Any]], points: Sequence[Mapping[str, Any]]
) -> str:
    """What at most `wanted` examples would have brought instead of what was done."""
    head = f"most examples {wanted} instead of {now}"
    cap = next((each for each in caps if each["most"] == wanted), None)
    # Where none was sent so many, the log tells of what was done, and not of more.
    if cap is None or (wanted > now and not cap["shortened"]):
        return f"{head}: not known."
    done: Mapping[str, Any] = next((each for each in points if each["policy"] == "logged"), {})
    quality = _figure(_known(done.get("quality")), _known(cap["quality"]), 100, 1, "", " %", True)
    cost = _figure(
        _known(done.get("cost_usd")), _known(cap["cost_usd"]), 1000, 2, "$", " per 1,000 requests", True
    )
    return f"{head}, with engines chosen as they were: quality {quality}, {cost}."


def _known(told: Mapping[str, float | None] | None) -> Told:
    found = {name: number for name, number in (told or {}).items() if number is not None}
    return found if found.keys() >= {"value", "low", "high"} else None


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
