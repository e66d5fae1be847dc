"""The log of requests, newest first: filtered by their properties and by words, a page at a time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qsl, urlencode

from admin.choices import MOST_CHOICES, offered
from admin.formats import tenant_label
from admin.page import Asked, BadParameter, Summary
from admin.roles import Content
from admin.sources import Sources
from admin.summaries.spans import SPANS, since_s
from admin.words import REASONS
from store.decisions.search import Found, Place, RequestSearch, Wanted, Way
from store.records import RequestRecord

ROWS = 50
WAYS: dict[Way, str] = {
    "": "any",
    "hit": "cache hit",
    "exact": "cache hit, same request",
    "semantic": "cache hit, similar question",
    "offloaded": "offloaded",
    "reference": "by the reference",
    "few_shot": "few-shot",
    "direct": "direct",
    "failed_over": "failed over",
    "failed": "failed",
}
FILTERS = (
    "q",
    "within",
    "from",
    "to",
    "tenant",
    "key",
    "model",
    "engine",
    "way",
    "status",
    "reason",
    "cost",
    "example",
    "user",
    "session",
)
NOBODY = "nobody"
"""As an end user whose name no request has."""
DIGEST = re.compile(r"[0-9a-f]{24}")
"""As what an end user stands in the log."""


def requests(sources: Sources, asked: Asked) -> Summary:
    """Filters: see FILTERS. `before` continues behind a page, `after` before it: an end of the page's own links.

    Only those who may read content may search for words: finding a request by a word reveals that the word is in it.
    """
    words = asked.text("q", longest=200)
    if words and not asked.viewer.role.reads_content:
        raise BadParameter("q looks for words in what people wrote, which your role may not read")
    search = sources.store.decisions.search
    wanted = wanted_by(sources, asked)
    before, after = _place(asked, "before"), _place(asked, "after")
    if isinstance(before, Place if words else int) or isinstance(after, int) or (words and after):
        raise BadParameter("before is a place in another list; leave it out to begin with the latest")
    first_page = before is None
    if words:
        found = search.with_words(
            wanted, words, limit=ROWS, before=before if isinstance(before, int) else None
        )
    elif after is not None:
        found, first_page = _after(search, wanted, after)
    else:
        found = search.page(wanted, limit=ROWS, before=before if isinstance(before, Place) else None)
    filters = {name: asked.text(name, longest=200) for name in FILTERS}
    kept = {name: value for name, value in filters.items() if value}
    return {
        "filters": filters,
        "filtered": bool(kept),
        "kept": urlencode(kept),
        "views": views(sources, reads_content=asked.viewer.role.reads_content),
        "first_page": first_page,
        "rows": rows_of(sources, found.rows),
        "looked_back_to_s": found.looked_back_to_s,
        "older": urlencode(kept | {"before": _named(found.next)}) if found.next is not None else None,
        "newer": urlencode(kept | {"after": _named(found.first)}) if found.first and not first_page else None,
        "choices": _choices(sources, filters["tenant"], filters["key"]),
    }


def beside(sources: Sources, asked: Asked, id: str) -> dict[str, str | None]:
    """Ids of the older and the newer request in the list with these filters, and the filters for links to them.

    Words are left out: the log is gone through by time.
    """
    kept = {name: value for name in FILTERS if name != "q" and (value := asked.text(name, longest=200))}
    older, newer = sources.store.decisions.search.beside(wanted_by(sources, asked), id)
    return {"older": older, "newer": newer, "kept": urlencode(kept)}


def shown(record: RequestRecord, names: dict[str, str]) -> dict[str, Any]:
    """A request in a list, without any text of it."""
    return {
        "id": record.id,
        "at_s": record.started_at_s,
        "tenant": record.tenant,
        "tenant_name": names.get(record.tenant, ""),
        "key": record.key_id,
        "model": record.model,
        "engine": record.engine,
        "way": way_of(record),
        "reason": record.reason,
        "why": REASONS.get(record.reason.removesuffix("+failover"), record.reason),
        "examples": len(record.example_ids),
        "outcome": record.outcome,
        "status": record.status,
        "cost_usd": record.cost_usd,
        "prompt_tokens": record.prompt_tokens,
        "cached_tokens": record.cached_tokens,
        "completion_tokens": record.completion_tokens,
        "ttft_ms": record.first_chunk_ms,
        "total_ms": record.total_ms,
        "session": record.session,
        "error_kind": record.error_kind,
    }


def way_of(record: RequestRecord) -> Way:
    """How it was answered: see store.decisions.search.Way."""
    if record.outcome == "hit":
        return "semantic" if record.policy == "semantic" else "exact"
    if record.outcome != "answered":
        return "failed"
    if record.failed_over:
        return "failed_over"
    return "few_shot" if record.example_ids else "direct"


def rows_of(sources: Sources, records: Sequence[RequestRecord]) -> list[dict[str, Any]]:
    """Requests in a list, each with the beginning of its question and its end user, for who may read them."""
    names, decisions = sources.tenant_names(), sources.store.decisions
    previews = decisions.texts.previews([record.id for record in records])
    users = decisions.details.users([record.id for record in records if record.end_user])

    def content(texts: Mapping[str, str], id: str) -> Content | None:
        return Content(texts[id]) if texts.get(id) else None

    return [
        shown(record, names) | {"question": content(previews, record.id), "user": content(users, record.id)}
        for record in records
    ]


def views(sources: Sources, *, reads_content: bool) -> list[dict[str, Any]]:
    """Saved views by name. Those that look for words are only for who may read content."""
    found = [asdict(view) for view in sources.store.saved_views.list()]
    return [view for view in found if reads_content or "q" not in dict(parse_qsl(view["filters"]))]


def wanted_by(sources: Sources, asked: Asked) -> Wanted:
    """The filters but for words. Raises BadParameter for what no filter can be."""
    within = asked.choice("within", ("", *SPANS), "")
    since, until = asked.time("from"), asked.time("to")
    if within:
        since = max(since or 0.0, since_s(within, asked.now_s))
    return Wanted(
        tenant=asked.text("tenant", longest=200),
        key_id=asked.text("key", longest=200),
        model=asked.text("model", longest=200),
        engine=asked.text("engine", longest=200),
        way=_way(asked),
        status=_status(asked),
        reason=asked.text("reason", longest=100),
        since_s=since,
        until_s=until,
        least_usd=asked.number("cost", None, least=0.0, most=1e9),
        example=asked.whole("example", 0) or None,
        references=tuple(sources.gateway.references().items()),
        session=asked.text("session", longest=200),
        end_user=_end_user(sources, asked),
    )


def _end_user(sources: Sources, asked: Asked) -> str:
    """The digest of the end user that is asked for: as it is, or of the name that clients give. Raises BadParameter."""
    said = asked.text("user", longest=1000)
    if not said or DIGEST.fullmatch(said):
        return said
    if not asked.viewer.role.reads_content:
        raise BadParameter("user is a name that clients give, by which your role may not search", "user")
    tenant = asked.text("tenant", longest=200)
    found = {
        hit.id
        for hit in sources.store.decisions.resolve.find(said)
        if hit.kind == "user" and tenant in ("", hit.tenant)
    }
    if len(found) > 1:
        raise BadParameter("user is a name that several tenants use; choose a tenant, too", "user")
    return found.pop() if found else NOBODY


def _way(asked: Asked) -> Way:
    text = asked.choice("way", tuple(WAYS), "")
    return next(way for way in WAYS if way == text)


def _status(asked: Asked) -> int | None:
    text = asked.text("status", longest=10)
    if not text:
        return None
    if text.isascii() and text.isdigit() and (1 <= int(text) <= 5 or 100 <= int(text) <= 599):
        return int(text)
    raise BadParameter(f"status is {text!r}; an HTTP status is right, or its first digit")


def tenants_to_choose(sources: Sources, chosen: str) -> list[tuple[str, str]]:
    """(id, name) of tenants with requests, and of the chosen one."""
    names, found = sources.tenant_names(), sources.store.decisions.search.tenants(MOST_CHOICES)
    if chosen and chosen not in found:
        found.append(chosen)
    return [(tenant, tenant_label(names, tenant)) for tenant in found]


def keys_to_choose(sources: Sources, chosen: str) -> list[tuple[str, str]]:
    """(id, name) of keys, the chosen one among them."""
    every = (
        (key.id, f"{key.name} ({key.tenant_name})" if key.tenant_name else key.name)
        for key in sources.store.keys.listed()
    )
    return offered(every, chosen)


def _after(search: RequestSearch, wanted: Wanted, after: Place) -> tuple[Found, bool]:
    """The page that came next after a place, and whether it is the first: with the latest request."""
    rows, newest = search.newer(wanted, limit=ROWS, after=after)
    if newest is None or len(rows) < ROWS or not search.newer(wanted, limit=1, after=newest)[0]:
        return search.page(wanted, limit=ROWS), True
    oldest = search.place_of(rows[-1].id)
    return Found(rows, oldest, None, newest), False


def _place(asked: Asked, name: str) -> Place | int | None:
    """Reads a position written by `_named`."""
    text = asked.text(name, longest=60)
    if not text:
        return None
    kind, _, rest = text.partition("-")
    try:
        if kind == "w":
            return int(rest)
        at_s, _, row_id = rest.partition("-")
        if kind == "t":
            return Place(float(at_s), int(row_id))
    except ValueError:
        pass
    raise BadParameter(f"{name} is {text!r}; it comes from a link of the list")


def _named(place: Place | int) -> str:
    return f"w-{place}" if isinstance(place, int) else f"t-{place.at_s!r}-{place.row_id}"


def _choices(sources: Sources, tenant: str, key: str) -> dict[str, Any]:
    """The values that the filters offer."""
    return {
        "tenants": tenants_to_choose(sources, tenant),
        "keys": keys_to_choose(sources, key),
        "models": [model.name for model in sources.gateway.models],
        "engines": [engine.name for engine in sources.gateway.engines],
        "ways": list(WAYS.items()),
    }
