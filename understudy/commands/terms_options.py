"""The options of `keys` and `tenants`, made from the model of what somebody may use, and what they come to as its fields."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

import click

from store.people.limits import PERIODS, Limits, Terms, kind_of, told
from store.validating import fields_of
from understudy.commands.since import moment as since

_NONE = "none"
_AGES = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
_AGE = re.compile(r"(\d+(?:\.\d+)?)([mhdw])")
_BUDGET = re.compile(rf"([^/]+)/({'|'.join(PERIODS)})")
_METAVARS = {"texts": "GLOB", "budgets": "USD/PERIOD", "count": "N", "text": "TEXT"}


def terms_options() -> list[click.Option]:
    """Options for limits, limits of each end user, expiry, memory's partition and whether end users are needed."""
    return [*_limits("", ""), *_limits("user-", "Of every single end user. "), *_others()]


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
    found = since(option, text, time.time())
    assert found is not None, "there is a text"
    return found


def _option(name: str, kind: str) -> str:
    """An option that may be given several times names one."""
    return name.removesuffix("s") if kind in ("texts", "budgets") else name


def _limits(prefix: str, whose: str) -> Iterable[click.Option]:
    for name, field in fields_of(Limits).items():
        kind, said = kind_of(field), whose + (field.description or "")
        option = prefix + _option(name, kind).replace("_", "-")
        if kind == "flag":
            yield click.Option([f"--{option}/--{prefix}no-{name.replace('_', '-')}"], default=None, help=said)
        elif kind in ("texts", "budgets"):
            said += " May be given several times."
            yield click.Option([f"--{option}"], multiple=True, metavar=_METAVARS[kind], help=said)
        else:
            yield click.Option([f"--{option}"], metavar=_METAVARS[kind], help=said)


def _others() -> list[click.Option]:
    said = {name: field.description for name, field in fields_of(Terms).items()}
    return [
        click.Option(["--expires"], metavar="WHEN", help="When it ends: 90d, or a date such as 2027-01-31."),
        click.Option(["--partition"], type=click.Choice(["user", "tenant", _NONE]), help=said["partition"]),
        click.Option(
            ["--users-required"], type=click.Choice(["yes", "no", _NONE]), help=said["users_required"]
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
