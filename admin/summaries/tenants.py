"""Every tenant in one table, with its use: searched, sorted, a page at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from admin.page import Asked, Summary
from admin.sources import Sources
from admin.summaries.limit_use import DAYS, fullest, limit_use
from admin.terms_form import terms_shown
from store.decisions.rollups import DAY_S, DELETED, HOUR_S
from store.people.described import state_of
from store.records import Key, Tenant

PER_PAGE = 50
SORTS = ("requests", "cost_usd", "tokens", "name", "keys", "examples")
OWN_CREDENTIAL = "Known by its own credential"
NO_CREDENTIAL = "Everybody without a credential"


def tenants(sources: Sources, asked: Asked) -> Summary:
    """`span`: day, week or month, over which use is counted. `q`: part of its name or a key's, or how an id begins.

    `sort`: one of SORTS, `order` asc or desc; `page`, from 1.
    """
    span = asked.choice("span", tuple(DAYS), "week")
    q = asked.text("q", longest=200)
    sort = asked.choice("sort", SORTS, "requests")
    order = asked.choice("order", ("asc", "desc"), "asc" if sort == "name" else "desc")
    page = asked.whole("page", 1, least=1, most=10**6)
    since_s = asked.now_s - DAYS[span] * DAY_S
    keys = sources.store.keys.list()
    rows = _rows(sources, keys, since_s, asked.now_s, span)
    found = [row for row in rows if _matches(row, q)] if q else rows
    found.sort(key=lambda row: _place(row, sort), reverse=order == "desc")
    pages = max(1, -(-len(found) // PER_PAGE))
    shown = found[(page - 1) * PER_PAGE : page * PER_PAGE]
    return {
        "span": span,
        "since_s": since_s,
        "q": q,
        "sort": sort,
        "order": order,
        "page_number": page,
        "pages": pages,
        "found": len(found),
        "all": len(rows),
        "open": not keys,
        "names": sorted({key.tenant_name for key in keys if key.tenant_name})[:1000],
        "new_key": terms_shown(None),
        "tenants": [_shown(sources, row, asked.now_s) for row in shown],
    }


def name_of(tenant: str, name: str) -> str:
    """What people call a tenant: the operator's name of it, or how it is told from others."""
    if tenant == DELETED:
        return "Deleted tenants"
    return name or (NO_CREDENTIAL if tenant == "default" else OWN_CREDENTIAL)


def state_of_tenant(record: Tenant | None, now_s: float) -> str:
    """closed, expired or active."""
    if record is not None and record.closed_at_s is not None:
        return "closed"
    expired = record is not None and record.expires_at_s is not None and record.expires_at_s <= now_s
    return "expired" if expired else "active"


def _rows(
    sources: Sources, keys: Sequence[Key], since_s: float, now_s: float, span: str
) -> list[dict[str, Any]]:
    sources.rollups.catch_up()
    store = sources.store
    records = {record.id: record for record in store.tenant_records.list()}
    of_tenant: defaultdict[str, list[Key]] = defaultdict(list)
    for key in keys:
        of_tenant[key.tenant].append(key)
    # A week or a month is read by whole days, in a twentieth of the time.
    use = {
        tenant: counts
        for tenant, *counts in sources.rollups.by_tenant(since_s, HOUR_S if span == "day" else DAY_S)
    }
    examples = store.examples.tenants()
    gone = {one.id for one in store.tenant_records.deleted()}
    ids = {*of_tenant, *records, *use, *examples}
    return [
        _row(id, of_tenant.get(id, ()), records.get(id), use.get(id, (0, 0.0, 0)), examples, now_s)
        for id in ids
        # What came of requests that were under way is not hidden.
        if id not in gone or id in use or examples.get(id)
    ]


def _row(
    id: str,
    keys: Sequence[Key],
    record: Tenant | None,
    use: Sequence[Any],
    examples: Mapping[str, int],
    now_s: float,
) -> dict[str, Any]:
    name = record.name if record is not None else next((key.tenant_name for key in keys), "")
    return {
        "id": id,
        "name": name_of(id, name),
        "state": "deleted" if id == DELETED else state_of_tenant(record, now_s),
        "keys": sum(state_of(key, now_s) == "active" for key in keys),
        "requests": use[0],
        "tokens": use[2],
        "cost_usd": use[1],
        "examples": examples.get(id, 0),
        "record": record,
        "names": [name_of(id, name).lower(), *(key.name.lower() for key in keys)],
        "ids": [id, *(key.id for key in keys), *(key.prefix.lower() for key in keys)],
    }


def _shown(sources: Sources, row: dict[str, Any], now_s: float) -> Summary:
    record: Tenant | None = row["record"]
    shown = {name: value for name, value in row.items() if name not in ("record", "names", "ids")}
    limited = limit_use(sources, f"tenant:{row['id']}", record.limits, now_s) if record is not None else []
    return shown | {"limits": len(limited), "used_share": fullest(limited)}


def _matches(row: dict[str, Any], q: str) -> bool:
    wanted = q.lower()
    return any(wanted in name for name in row["names"]) or any(id.startswith(wanted) for id in row["ids"])


def _place(row: dict[str, Any], sort: str) -> tuple[Any, str]:
    value = row[sort]
    return (value.lower() if isinstance(value, str) else value, row["id"])
