"""The form of what a key or a tenant may use: its fields as text, and what was sent as a record's fields.

A form holds every limit, so what is left empty is no limit. Fields of every single end user's limits begin with `user_`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from admin.page import ActionFailed, Asked, BadParameter, Summary
from store.people.described import described, replaced
from store.people.limits import MOST_COUNT, MOST_USD, PERIODS, Limits, told
from store.records import Key, Tenant

Record = TypeVar("Record", Key, Tenant)

COUNTS = {
    "requests_per_minute": "Requests per minute",
    "tokens_per_minute": "Tokens per minute",
    "concurrency": "Concurrent requests",
    "max_output_tokens": "Output tokens of one request",
}
"""What a limit is called, by its name."""
_LISTS = ("models", "components", "endpoints")
_USERS = "user_"
_NAMED = re.compile(r"\b(limits|each_user)\.(\w+)")
_BETWEEN = re.compile(r"[,\s]+")


def terms_shown(record: Key | Tenant | None) -> Summary:
    """The form's fields as they stand, by name; of nothing yet those of no limits."""
    limits, each_user = (record.limits, record.each_user) if record else (Limits(), Limits())
    return {
        **_limits_shown(limits, ""),
        **_limits_shown(each_user, _USERS),
        "expires_at_s": record.expires_at_s if record else None,
        "partition": (record.partition if record else None) or "",
        "users_required": {None: "", True: "yes", False: "no"}[record.users_required if record else None],
        "of_users": each_user != Limits(),
    }


def terms_sent(asked: Asked) -> dict[str, Any]:
    """The fields of a record as they were sent. Raises BadParameter."""
    required = asked.choice("users_required", ("", "yes", "no"), "")
    return {
        "limits": _limits_sent(asked, ""),
        "each_user": _limits_sent(asked, _USERS),
        "expires_at": told(asked.time("expires")),
        "partition": asked.choice("partition", ("", "user", "tenant"), "") or None,
        "users_required": None if not required else required == "yes",
    }


def version_of(record: Key | Tenant | None) -> str:
    """What a form carries along, so that nobody overwrites what another has changed meanwhile."""
    if record is None:
        return "none"
    said = json.dumps(described(record), sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def changed_by_form(asked: Asked, fields: dict[str, Any]) -> Callable[[Record], Record]:
    """For `edit` of a store: the record with the sent fields. Raises ActionFailed where it changed meanwhile."""

    def change(record: Record) -> Record:
        if asked.text("version") != version_of(record):
            raise ActionFailed(
                "Somebody else has changed this meanwhile. Below is what you sent; compare it with what is in force, and"
                " save again to put yours in its place.",
                "version",
            )
        return replaced(record, fields)

    return change


def refused(error: ValueError) -> BadParameter:
    """What a record refused, at the form's field that it is about."""
    found = _NAMED.search(str(error))
    field = "" if found is None else (_USERS if found[1] == "each_user" else "") + found[2]
    return BadParameter(f"{error}.", field)


def _limits_shown(limits: Limits, prefix: str) -> Summary:
    budgets = {budget.per: budget.usd for budget in limits.budgets}
    shown: Summary = {name: "\n".join(getattr(limits, name)) for name in _LISTS}
    shown |= {name: getattr(limits, name) for name in COUNTS}
    shown |= {f"budget_{per}": budgets.get(per) for per in PERIODS}
    shown |= {"time_zone": limits.time_zone, "allow_unpriced": limits.allow_unpriced}
    return {prefix + name: value for name, value in shown.items()}


def _limits_sent(asked: Asked, prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _LISTS:
        found[name] = [one for one in _BETWEEN.split(asked.text(prefix + name, longest=40_000)) if one]
    for name in COUNTS:
        if (count := asked.number(prefix + name, None, least=1, most=MOST_COUNT)) is not None:
            if count != int(count):
                raise BadParameter(f"{COUNTS[name]}: {count:g} is no whole number", prefix + name)
            found[name] = int(count)
    budgets = {per: asked.number(f"{prefix}budget_{per}", None, least=0, most=MOST_USD) for per in PERIODS}
    found["budgets"] = [{"usd": usd, "per": per} for per, usd in budgets.items() if usd is not None]
    found["time_zone"] = asked.text(prefix + "time_zone", "UTC", longest=64)
    found["allow_unpriced"] = bool(asked.text(prefix + "allow_unpriced"))
    return found
