"""The books: what requests used and cost, by what is asked for."""

from __future__ import annotations

from typing import Any, cast

from admin.api.route import PAGING, Answer, Call, Parameter, Problem, Route
from store.decisions.usage import DIMENSIONS, Dimension, UsageSum
from store.people.limits import at_s, told


def usage(call: Call) -> Answer:
    """Sums by line and what else is named in `by`, the dearest first."""
    after, limit = call.page()
    by = tuple(dict.fromkeys(name for name in call.query.get("by", "").split(",") if name))
    if unknown := [name for name in by if name not in DIMENSIONS]:
        raise Problem(400, "invalid", f"by has {unknown[0][:40]!r}; {', '.join(DIMENSIONS)} are right")
    if after and not (after.isascii() and after.isdigit() and len(after) < 10):
        raise Problem(400, "invalid", f"after is {after[:40]!r}; the `next` of a page is right")
    since_s = at_s(call.query.get("since"), "since") or 0.0
    until_s = at_s(call.query.get("until"), "until")
    store, tenant = call.sources.store, call.query.get("tenant")
    found = store.decisions.usage.sums(
        cast("tuple[Dimension, ...]", by),
        since_s=since_s,
        until_s=1e11 if until_s is None else until_s,
        tenant=None if tenant is None else store.keys.tenant_named(tenant),
        key_id=call.query.get("key"),
        end_user=call.query.get("user"),
    )
    names = {key.id: key.name for key in store.keys.listed()}
    tenants = call.sources.tenant_names()
    start = int(after or 0)
    rows = [_row(one, by, names, tenants) for one in found[start : start + limit]]
    more = str(start + limit) if len(found) > start + limit else None
    return Answer({"data": rows, "next": more, "since": told(since_s), "until": told(until_s)})


def _row(
    one: UsageSum, by: tuple[str, ...], names: dict[str, str], tenants: dict[str, str]
) -> dict[str, Any]:
    row: dict[str, Any] = {"line": one.line, **{name: getattr(one, name) for name in by}}
    if "key" in row:
        row["key_name"] = names.get(one.key, "")
    if "tenant" in row:
        row["tenant_name"] = tenants.get(one.tenant, "")
    return row | one.amounts._asdict()


_PARAMETERS = (
    Parameter("by", f"Names with commas between: {', '.join(DIMENSIONS)}."),
    Parameter("since", "From then on, in ISO 8601; whole hours, or whole days where it goes by end user."),
    Parameter("until", "Before then; the same."),
    Parameter("tenant", "Only the tenant with this name."),
    Parameter("key", "Only the key with this id."),
    Parameter("user", "Only the end user with this digest."),
)
ROUTES = (
    Route(
        "GET",
        "/api/usage",
        "usage/show",
        "What requests used and cost",
        usage,
        gives="Usage",
        parameters=(*_PARAMETERS, *PAGING),
    ),
)
