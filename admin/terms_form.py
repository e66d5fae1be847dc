"""The form of what a key or a tenant may use: its fields as text, and what was sent as a record's fields.

A form holds every limit, so what is left empty is no limit. Fields of every single end user's limits begin with `user_`.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from admin.page import Asked, BadParameter, Summary
from store.people.described import described
from store.people.limits import MOST_COUNT, MOST_USD, PERIODS, Limits, Period, kind_of, told
from store.records import Key, Tenant
from store.validating import fields_of

_USERS = "user_"
_BUDGETS: dict[Period, str] = {
    "day": "Budget per day, $",
    "week": "Budget per week, $",
    "month": "Budget per month, $",
    "total": "Budget in total, $",
}
_ORDER = ("count", "usd", "text", "flag", "texts")
"""Of the controls of a form, by their kind: the small ones first."""
_NAMED = re.compile(r"\b(limits|each_user)\.(\w+)")
_BETWEEN = re.compile(r"[,\s]+")


def terms_shown(record: Key | Tenant | None) -> Summary:
    """The form's controls as they stand; of nothing yet those of no limits."""
    limits, each_user = (record.limits, record.each_user) if record else (Limits(), Limits())
    return {
        "limits": _controls(limits, ""),
        "each_user": _controls(each_user, _USERS),
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


def refused(error: ValueError) -> BadParameter:
    """What a record refused, at the form's field that it is about."""
    found = _NAMED.search(str(error))
    if found is None:
        # A refusal begins with the name of what it refuses.
        return BadParameter(f"{error}.", str(error).partition(" ")[0])
    field = (_USERS if found[1] == "each_user" else "") + found[2]
    return BadParameter(f"{error}.", field)


def _controls(limits: Limits, prefix: str) -> list[Summary]:
    """The controls of a form, each with its `kind`, `name`, `label` and `value`."""
    found: list[Summary] = []
    for name, field in fields_of(Limits).items():
        kind, value = kind_of(field), getattr(limits, name)
        if kind == "budgets":
            spent = {budget.per: budget.usd for budget in limits.budgets}
            found += [
                {"kind": "usd", "name": f"{prefix}budget_{per}", "label": label, "value": spent.get(per)}
                for per, label in _BUDGETS.items()
            ]
        else:
            shown = "\n".join(value) if kind == "texts" else value
            label = f"{field.title}, one per line" if kind == "texts" else field.title
            found.append({"kind": kind, "name": prefix + name, "label": label, "value": shown})
    return sorted(found, key=lambda control: _ORDER.index(control["kind"]))


def _limits_sent(asked: Asked, prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, field in fields_of(Limits).items():
        kind, sent = kind_of(field), prefix + name
        if kind == "texts":
            found[name] = [one for one in _BETWEEN.split(asked.text(sent, longest=40_000)) if one]
        elif kind == "count":
            found[name] = _count_sent(asked, sent, field.title)
        elif kind == "text":
            found[name] = asked.text(sent, field.default, longest=64)
        elif kind == "flag":
            found[name] = bool(asked.text(sent))
        else:
            found[name] = _budgets_sent(asked, prefix)
    return found


def _count_sent(asked: Asked, name: str, label: str | None) -> int | None:
    count = asked.number(name, None, least=1, most=MOST_COUNT)
    if count is not None and count != int(count):
        raise BadParameter(f"{label}: {count:g} is no whole number", name)
    return None if count is None else int(count)


def _budgets_sent(asked: Asked, prefix: str) -> list[dict[str, Any]]:
    sent = {per: asked.number(f"{prefix}budget_{per}", None, least=0, most=MOST_USD) for per in PERIODS}
    return [{"usd": usd, "per": per} for per, usd in sent.items() if usd is not None]
