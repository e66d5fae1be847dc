"""Every tenant in one table, with its use: searched, sorted, a page at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from admin.formats import tenant_label
from admin.page import Asked, Summary
from admin.sources import Sources
from admin.summaries.limit_use import DAYS, fullest, limit_use
from admin.summaries.tenant_quality import tenant_quality
from admin.terms_form import terms_shown
from store.people.described import state_of
from store.records import Key, Tenant
from store.sums import DAY_S, DELETED, HOUR_S

PER_PAGE = 50
SORTS = ("requests", "cost_usd", "tokens", "name", "keys", "examples", "quality")
_LEVELS = ("good", "warning", "critical")
OWN_CREDENTIAL = "Known by its own credential"


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
    everybody = _Everybody.read(sources, since_s, HOUR_S if span == "day" else DAY_S)
    found = [id for id in everybody.ids if everybody.matches(id, q.lower())] if q else everybody.ids
    found.sort(key=everybody.sorter(sort, asked.now_s), reverse=order == "desc")
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
        "all": everybody.count,
        "open": not everybody.keys,
        "names": sorted({keys[0].tenant_name for keys in everybody.keys.values()})[:1000],
        "new_key": terms_shown(None),
        "tenants": [_shown(sources, everybody, id, asked.now_s) for id in shown],
    }


def name_of(tenant: str, name: str) -> str:
    """What people call a tenant: the operator's name of it, or how it is told from others."""
    if tenant == DELETED:
        return "Deleted tenants"
    return name or (tenant_label({}, tenant) if tenant == "default" else OWN_CREDENTIAL)


def state_of_tenant(record: Tenant | None, now_s: float) -> str:
    """closed, expired or active."""
    if record is not None and record.closed_at_s is not None:
        return "closed"
    expired = record is not None and record.expires_at_s is not None and record.expires_at_s <= now_s
    return "expired" if expired else "active"


@dataclass(frozen=True, slots=True)
class _Everybody:
    """What is known of all tenants, read once. A dictionary for each of thousands would take most of the page's time."""

    ids: list[str]
    keys: Mapping[str, Sequence[Key]]
    records: Mapping[str, Tenant]
    use: Mapping[str, tuple[int, float, int]]
    """(requests, cost in dollars, tokens) by tenant."""
    examples: Mapping[str, int]
    quality: Mapping[str, str]
    """Level of the quality alarm, of those of whose answers enough is known."""
    count: int

    @classmethod
    def read(cls, sources: Sources, since_s: float, width_s: int) -> _Everybody:
        """A week or a month is read by whole days, in a twentieth of the time."""
        sources.rollups.catch_up()
        store = sources.store
        keys: defaultdict[str, list[Key]] = defaultdict(list)
        for key in store.keys.listed():
            keys[key.tenant].append(key)
        records = {record.id: record for record in store.tenant_records.list()}
        use = {
            id: (requests, usd, tokens)
            for id, requests, usd, tokens in sources.rollups.by_tenant(since_s, width_s)
        }
        examples = store.examples.tenants()
        gone = {one.id for one in store.tenant_records.deleted()}
        # What came of a deleted one's requests that were under way is not hidden.
        ids = [
            id for id in {*keys, *records, *use, *examples} if id not in gone or id in use or examples.get(id)
        ]
        found = tenant_quality(sources)
        quality = found.levels if found is not None else {}
        return cls(ids, keys, records, use, examples, quality, len(ids))

    def name(self, id: str) -> str:
        record = self.records.get(id)
        keys = self.keys.get(id)
        return name_of(id, record.name if record is not None else keys[0].tenant_name if keys else "")

    def in_force(self, id: str, now_s: float) -> int:
        return sum(state_of(key, now_s) == "active" for key in self.keys.get(id, ()))

    def matches(self, id: str, wanted: str) -> bool:
        """Whether it is part of its name or a key's, or how an id begins."""
        if id.startswith(wanted) or wanted in self.name(id).lower():
            return True
        return any(
            wanted in key.name.lower() or key.id.startswith(wanted) or key.prefix.lower().startswith(wanted)
            for key in self.keys.get(id, ())
        )

    def sorter(self, sort: str, now_s: float) -> Callable[[str], Any]:
        """What to sort ids by."""
        use, examples, quality, nothing = self.use, self.examples, self.quality, (0, 0.0, 0)
        by: dict[str, Callable[[str], Any]] = {
            "name": lambda id: (self.name(id).lower(), id),
            "keys": lambda id: (self.in_force(id, now_s), id),
            "examples": lambda id: (examples.get(id, 0), id),
            "quality": lambda id: (_LEVELS.index(quality[id]) if id in quality else -1, id),
            "requests": lambda id: (use.get(id, nothing)[0], id),
            "cost_usd": lambda id: (use.get(id, nothing)[1], id),
            "tokens": lambda id: (use.get(id, nothing)[2], id),
        }
        return by[sort]


def _shown(sources: Sources, everybody: _Everybody, id: str, now_s: float) -> Summary:
    record, use = everybody.records.get(id), everybody.use.get(id, (0, 0.0, 0))
    limited = limit_use(sources, f"tenant:{id}", record.limits, now_s) if record is not None else []
    return {
        "id": id,
        "name": everybody.name(id),
        "state": "deleted" if id == DELETED else state_of_tenant(record, now_s),
        "keys": everybody.in_force(id, now_s),
        "requests": use[0],
        "tokens": use[2],
        "cost_usd": use[1],
        "examples": everybody.examples.get(id, 0),
        "quality": everybody.quality.get(id, ""),
        "limits": len(limited),
        "used_share": fullest(limited),
    }
