"""Reading the books: what requests used and cost, by what is asked for."""

from __future__ import annotations

from typing import Any, cast

from pydantic import Field
from pydantic.dataclasses import dataclass

from admin.operations.operation import By, Outcome, operation
from admin.operations.people import Paging
from admin.roles import Role
from admin.sources import Sources
from store.decisions.usage import DIMENSIONS, Dimension, UsageSum
from store.people.limits import Moment, told
from store.validating import CLOSED

_EVER_S = 1e11


@dataclass(frozen=True, slots=True, config=CLOSED)
class Query(Paging):
    """Which sums."""

    by: str = Field(default="", description=f"Names with commas between: {', '.join(DIMENSIONS)}.")
    since: Moment = Field(
        default=0.0,
        description="From then on, in ISO 8601; whole hours, or whole days where it goes by end user.",
    )
    until: Moment | None = Field(default=None, description="Before then; the same.")
    tenant: str | None = Field(default=None, description="Only the tenant with this name.")
    key: str | None = Field(default=None, description="Only the key with this id.")
    user: str | None = Field(default=None, description="Only the end user with this digest.")


@operation("usage/show", role=Role.VIEWER)
def usage(sources: Sources, by: By, given: Query) -> Outcome:
    """What requests used and cost."""
    dimensions = tuple(dict.fromkeys(name for name in given.by.split(",") if name))
    if unknown := [name for name in dimensions if name not in DIMENSIONS]:
        raise ValueError(f"by has {unknown[0][:40]!r}; {', '.join(DIMENSIONS)} are right")
    if given.after and not (given.after.isascii() and given.after.isdigit() and len(given.after) < 10):
        raise ValueError(f"after is {given.after[:40]!r}; the `next` of a page is right")
    store = sources.store
    found = store.decisions.usage.sums(
        cast("tuple[Dimension, ...]", dimensions),
        since_s=given.since,
        until_s=_EVER_S if given.until is None else given.until,
        tenant=None if given.tenant is None else store.keys.tenant_named(given.tenant),
        key_id=given.key,
        end_user=given.user,
    )
    names = {key.id: key.name for key in store.keys.listed()}
    tenants = sources.tenant_names()
    start = int(given.after or 0)
    rows = [_row(one, dimensions, names, tenants) for one in found[start : start + given.limit]]
    more = str(start + given.limit) if len(found) > start + given.limit else None
    times = {"since": told(given.since), "until": told(given.until)}
    return Outcome("", value={"data": rows, "next": more, **times})


def _row(
    one: UsageSum, by: tuple[str, ...], names: dict[str, str], tenants: dict[str, str]
) -> dict[str, Any]:
    row: dict[str, Any] = {"line": one.line, **{name: getattr(one, name) for name in by}}
    if "key" in row:
        row["key_name"] = names.get(one.key, "")
    if "tenant" in row:
        row["tenant_name"] = tenants.get(one.tenant, "")
    return row | one.amounts._asdict()
