"""The cache: answers that are given again to the very same request, and what a purge of them would delete."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from admin.choices import offered
from admin.formats import tenant_label
from admin.page import Asked, BadParameter, NotThere, Summary
from admin.roles import Content
from admin.sources import Sources
from store.answers.exact_listing import CacheEntry, CacheSort, Purge

ROWS = 50
SORTS: dict[CacheSort, str] = {"newest": "newest", "oldest": "oldest", "hits": "most hits"}
WHATS = ("entry", "request", "key", "tenant", "all")
_MOST_SKIPPED = 20_000


def cache(sources: Sources, asked: Asked) -> Summary:
    """Filters: `tenant`; `sort`; `skip` for the next page."""
    tenant = asked.text("tenant", longest=200)
    sort = next(s for s in SORTS if s == asked.choice("sort", tuple(SORTS), "newest"))
    skip = asked.whole("skip", 0, most=_MOST_SKIPPED)
    listing, names = sources.store.answers.listing, sources.tenant_names()
    found = listing.page(tenant=tenant, sort=sort, skip=skip, limit=ROWS + 1)
    entries = found[:ROWS]
    questions = sources.store.decisions.texts.previews([e.request_id for e in entries if e.request_id])
    kept = {"tenant": tenant, "sort": sort if sort != "newest" else ""}
    totals = listing.totals()
    return {
        "totals": {
            "entries": totals.entries,
            "size_bytes": totals.size_bytes,
            "hits": totals.hits,
            "oldest_at_s": totals.oldest_at_s,
            "similar": totals.similar,
        },
        "tenant": tenant,
        "tenants": offered(
            (
                {"id": id, "name": tenant_label(names, id), "entries": entries}
                for id, entries in listing.tenants().items()
            ),
            tenant,
        ),
        "keys": offered(
            (
                {"id": key.id, "name": key.name, "tenant": key.tenant_name}
                for key in sources.store.keys.listed()
            ),
            "",
        ),
        "sort": sort,
        "sorts": list(SORTS.items()),
        "rows": [_shown(entry, names, questions, asked.now_s) for entry in entries],
        "next": None
        if len(found) <= ROWS
        else urlencode({name: value for name, value in kept.items() if value} | {"skip": skip + ROWS}),
    }


def _shown(
    entry: CacheEntry, names: dict[str, str], questions: dict[str, str], now_s: float
) -> dict[str, Any]:
    question = questions.get(entry.request_id)
    return {
        "id": entry.id,
        "request": entry.request_id,
        "question": Content(question) if question else None,
        "tenant": entry.tenant,
        "tenant_name": names.get(entry.tenant, ""),
        "engine": entry.engine,
        "corrected": entry.corrected,
        "stored_at_s": entry.stored_at_s,
        "age_s": max(0.0, now_s - entry.stored_at_s),
        "last_used_at_s": entry.last_used_at_s,
        "hits": entry.hits,
        "size_bytes": entry.size_bytes,
    }


def wanted(sources: Sources, asked: Asked) -> tuple[Purge, str]:
    """What a purge's form names, and how to say that. Form fields: `what`, one of WHATS; `of`, its id.

    Raises BadParameter and NotThere.
    """
    what, of = asked.choice("what", WHATS, ""), asked.text("of", longest=200)
    if what == "all":
        return Purge(), "of every tenant"
    if not of:
        raise BadParameter(f"of is empty; it names the {what} whose stored answers are to go", "of")
    if what == "entry":
        if not (of.isascii() and of.isdigit() and len(of) < 19 and int(of)):
            raise BadParameter(f"of is {of[:60]!r}; an entry's number is right", "of")
        return Purge(entry=int(of)), f"entry {of}"
    if what == "request":
        return Purge(request_id=of), f"of what request {of[:60]} was answered"
    if what == "key":
        key = next((key for key in sources.store.keys.listed() if key.id == of), None)
        if key is None:
            raise NotThere(f"There is no key {of[:60]!r}.")
        return Purge(tenant=key.tenant, key_id=key.id), f"first given to key {of[:60]}"
    return Purge(tenant=_tenant(sources, of)), f"of tenant {of[:60]}"


def _tenant(sources: Sources, named: str) -> str:
    """The id of a tenant by its name or id."""
    return next((id for id, name in sources.tenant_names().items() if name == named), named)


def deleted(answers: int) -> str:
    """A sentence with a space before it; empty where nothing was deleted."""
    if answers <= 0:
        return ""
    which = "1 stored answer was" if answers == 1 else f"{answers:,} stored answers were"
    return f" {which} deleted: such a request is answered anew."
