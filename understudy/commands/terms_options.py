"""The options of `keys` and `tenants`, made from the model of what somebody may use, and what they come to as its fields."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import click

from store.people.limits import PERIODS, Limits, Terms, kind_of, told
from store.validating import fields_of

F = TypeVar("F", bound=Callable[..., Any])
_NONE = "none"
_AGES = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
_AGE = re.compile(r"(\d+(?:\.\d+)?)([mhdw])")
_BUDGET = re.compile(rf"([^/]+)/({'|'.join(PERIODS)})")
_METAVARS = {"texts": "GLOB", "budgets": "USD/PERIOD", "count": "N", "text": "TEXT"}


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
    if (partition := given["partition"]) is not None:
        found["partition"] = None if partition == _NONE else partition
    if (required := given["users_required"]) is not None:
        found["users_required"] = None if required == _NONE else required == "yes"
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


def _option(name: str, kind: str) -> str:
    """An option that may be given several times names one."""
    return name.removesuffix("s") if kind in ("texts", "budgets") else name


def _limits(prefix: str, whose: str) -> Iterable[Callable[[F], F]]:
    for name, field in fields_of(Limits).items():
        kind, said = kind_of(field), whose + (field.description or "")
        option = prefix + _option(name, kind).replace("_", "-")
        if kind == "flag":
            yield click.option(f"--{option}/--{prefix}no-{name.replace('_', '-')}", default=None, help=said)
        elif kind in ("texts", "budgets"):
            said += " May be given several times."
            yield click.option(f"--{option}", multiple=True, metavar=_METAVARS[kind], help=said)
        else:
            yield click.option(f"--{option}", metavar=_METAVARS[kind], help=said)


def _others() -> list[Callable[[F], F]]:
    said = {name: field.description for name, field in fields_of(Terms).items()}
    return [
        click.option("--expires", metavar="WHEN", help="When it ends: 90d, or a date such as 2027-01-31."),
        click.option("--partition", type=click.Choice(["user", "tenant", _NONE]), help=said["partition"]),
        click.option(
            "--users-required", type=click.Choice(["yes", "no", _NONE]), help=said["users_required"]
        ),
    ]


def _limits_given(given: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, field in fields_of(Limits).items():
        kind = kind_of(field)
        option = prefix + _option(name, kind)
        value = given[option]
        if value is None or value == ():
            continue
        if value in (_NONE, (_NONE,)):
            found[name] = None
        else:
            found[name] = _read(value, kind, "--" + option.replace("_", "-"))
    return found


def _read(value: Any, kind: str, hint: str) -> Any:
    if kind == "budgets":
        return [_budget(each, hint) for each in value]
    if kind == "count":
        return _whole(value, hint)
    return list(value) if kind == "texts" else value


def _budget(text: str, hint: str) -> dict[str, Any]:
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
