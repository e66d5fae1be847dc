"""The options of `keys` and `tenants` that say what somebody may use, and what they come to as fields of a record."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import click

from store.people.limits import PERIODS, told

F = TypeVar("F", bound=Callable[..., Any])
_NONE = "none"
_AGES = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
_AGE = re.compile(r"(\d+(?:\.\d+)?)([mhdw])")
_BUDGET = re.compile(rf"([^/]+)/({'|'.join(PERIODS)})")

_COUNTS = {
    "requests_per_minute": "Requests within a minute.",
    "tokens_per_minute": "Tokens within a minute, in and out.",
    "concurrency": "Requests under way at once.",
    "max_output_tokens": "Largest output of one request, in tokens.",
}
_LISTS = {
    "models": ("model", "GLOB", "Models that may be used, such as 'gpt-4*'; may be given several times."),
    "components": (
        "component",
        "GLOB",
        "Components that steps of workflows may ask; may be given several times.",
    ),
    "endpoints": (
        "endpoint",
        "GLOB",
        "Endpoints that may be used, such as /chat/completions or '/files*'; may be given several times.",
    ),
    "budgets": (
        "budget",
        "USD/PERIOD",
        "Most dollars per day, week, month or in total: 5/day; may be given several times.",
    ),
}


def terms_options(command: F) -> F:
    """Options for limits, limits of each end user, expiry, memory's partition and whether end users are needed."""
    for option in reversed([*_limits("", ""), *_limits("user-", "Of every single end user. "), *_others()]):
        command = option(command)
    return command


def fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options as fields: only what was given; `none` takes a limit back. Raises click.BadParameter."""
    found: dict[str, Any] = {}
    for name, prefix in (("limits", ""), ("each_user", "user_")):
        if limits := _limits_given(given, prefix):
            found[name] = limits
    if (expires := given["expires"]) is not None:
        found["expires_at"] = None if expires == _NONE else told(moment(expires, "--expires"))
    for name, option in (("partition", given["partition"]), ("users_required", given["users_required"])):
        if option is not None:
            found[name] = None if option == _NONE else option
    if isinstance(found.get("users_required"), str):
        found["users_required"] = found["users_required"] == "yes"
    return found


def seconds(text: str, option: str) -> float:
    """From `30m`, `24h`, `7d`, `2w` or `0`. Raises click.BadParameter."""
    if text == "0":
        return 0.0
    if (found := _AGE.fullmatch(text)) is None:
        raise click.BadParameter(f"{text[:40]!r}: write 30m, 24h, 7d or 2w", param_hint=option)
    return float(found[1]) * _AGES[found[2]]


def moment(text: str, option: str) -> float:
    """Seconds since 1970: so long from now on, or a date, of which UTC's midnight is meant. Raises click.BadParameter."""
    if _AGE.fullmatch(text):
        return time.time() + seconds(text, option)
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else datetime.fromisoformat(at.isoformat() + "+00:00")).timestamp()
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text[:40]!r}: write 90d, or a date such as 2027-01-31", param_hint=option
        ) from None


def not_past(expires: str | None) -> None:
    """Raises click.BadParameter for an end of something new that has passed already."""
    if expires is not None and expires != _NONE and moment(expires, "--expires") <= time.time():
        raise click.BadParameter(
            f"{expires[:40]!r} has passed: write 90d, or a date to come", param_hint="--expires"
        )


def said(record: Mapping[str, Any]) -> Iterable[str]:
    """A described record as lines, without what is empty."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            for below, held in value.items():
                yield f"{name}.{below}: {_plain(held)}"
        elif value is not None and value != "":
            yield f"{name}: {_plain(value)}"


def _limits(prefix: str, whose: str) -> list[Callable[[F], F]]:
    options = [
        click.option(f"--{prefix}{option}", multiple=True, metavar=metavar, help=whose + text)
        for option, metavar, text in _LISTS.values()
    ]
    options += [
        click.option(f"--{prefix}{name.replace('_', '-')}", metavar="N", help=whose + text)
        for name, text in _COUNTS.items()
    ]
    return [
        *options,
        click.option(
            f"--{prefix}time-zone",
            metavar="ZONE",
            help=f"{whose}In which its budgets' days begin, such as Europe/Berlin.",
        ),
        click.option(
            f"--{prefix}allow-unpriced/--{prefix}no-allow-unpriced",
            default=None,
            help=f"{whose}Whether models without a price may be used despite a budget.",
        ),
    ]


def _others() -> list[Callable[[F], F]]:
    return [
        click.option("--expires", metavar="WHEN", help="When it ends: 90d, or a date such as 2027-01-31."),
        click.option(
            "--partition",
            type=click.Choice(["user", "tenant", _NONE]),
            help="Whether named end users have a memory each.",
        ),
        click.option(
            "--users-required",
            type=click.Choice(["yes", "no", _NONE]),
            help="Whether each request has to name its end user.",
        ),
    ]


def _limits_given(given: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (option, _, _) in _LISTS.items():
        if values := given[f"{prefix}{option}"]:
            hint = f"--{prefix}{option}".replace("_", "-")
            entries = [_budget(value, hint) if name == "budgets" else value for value in values]
            found[name] = None if values == (_NONE,) else entries
    for name in _COUNTS:
        if (value := given[f"{prefix}{name}"]) is not None:
            found[name] = None if value == _NONE else _whole(value, f"--{prefix}{name}".replace("_", "-"))
    if (zone := given[f"{prefix}time_zone"]) is not None:
        found["time_zone"] = None if zone == _NONE else zone
    if (allowed := given[f"{prefix}allow_unpriced"]) is not None:
        found["allow_unpriced"] = allowed
    return found


def _budget(text: str, hint: str) -> dict[str, Any] | None:
    if text == _NONE:
        return None
    found = _BUDGET.fullmatch(text)
    try:
        usd = float(found[1]) if found else None
    except ValueError:
        usd = None
    if found is None or usd is None:
        raise click.BadParameter(
            f"{text[:40]!r}: write such as 5/day, 100/month or 20/total", param_hint=hint
        )
    return {"usd": usd, "per": found[2]}


def _whole(text: str, hint: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise click.BadParameter(f"{text[:40]!r}: a whole number, or none", param_hint=hint) from None


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    if isinstance(value, Mapping) and "per" in value:
        return (
            f"{value['usd']:g} USD per {value['per']}"
            if value["per"] != "total"
            else f"{value['usd']:g} USD in all"
        )
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
