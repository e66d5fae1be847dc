"""Sessions: conversations of several requests, the one with the latest request first, and the requests of one."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from admin.page import Asked, NotThere, Summary
from admin.roles import Content
from admin.sources import Sources
from admin.summaries.requests import rows_of, tenants_to_choose
from store.decisions.search import Wanted
from store.decisions.sessions import Session

ROWS = 50
LOOKED_THROUGH = 10_000
"""Requests that a page of the list is made from."""
LEAST = {"": 1, "2": 2, "5": 5}
"""Choices of the fewest requests of a session, by the parameter's value."""


def sessions(sources: Sources, asked: Asked) -> Summary:
    """Filters: `tenant`, `least` requests. `before` continues behind a page."""
    tenant, least = asked.text("tenant", longest=200), asked.choice("least", tuple(LEAST), "")
    before_s = asked.number("before", None, least=0.0, most=1e11)
    found = sources.store.decisions.sessions.page(
        limit=ROWS,
        before_s=before_s,
        tenant=tenant,
        least_requests=LEAST[least],
        looked_through=LOOKED_THROUGH,
    )
    names, called = sources.tenant_names(), sources.store.decisions.sessions.names(found.rows)
    kept = {name: value for name, value in (("tenant", tenant), ("least", least)) if value}
    return {
        "filters": {"tenant": tenant, "least": least},
        "filtered": bool(kept),
        "kept": urlencode(kept),
        "first_page": before_s is None,
        "rows": [_shown(row, names, called.get((row.tenant, row.id), "")) for row in found.rows],
        "older": urlencode(kept | {"before": repr(found.next)}) if found.next is not None else None,
        "tenants": tenants_to_choose(sources, tenant),
    }


def session(sources: Sources, asked: Asked) -> Summary:
    """The session that the path names, with its latest requests. Raises NotThere."""
    tenant, id = asked.path["tenant"], asked.path["id"]
    found = sources.store.decisions.sessions.get(tenant, id)
    if found is None:
        raise NotThere("No request of this session is in the log, or not any more.")
    called = sources.store.decisions.sessions.names([found]).get((tenant, id), "")
    search = sources.store.decisions.search
    page = search.page(Wanted(tenant=tenant, session=id), limit=ROWS, looked_through=2**31)
    return {
        "session": _shown(found, sources.tenant_names(), called),
        "rows": rows_of(sources, page.rows),
        "kept": urlencode({"session": id, "tenant": tenant}),
        "more": page.next is not None,
    }


def path_of(tenant: str, id: str) -> str:
    """Where the page of a session is."""
    return f"/sessions/{quote(tenant, safe='')}/{quote(id, safe='')}"


def _shown(row: Session, names: dict[str, str], called: str) -> dict[str, Any]:
    return {
        "id": row.id,
        "path": path_of(row.tenant, row.id),
        "name": Content(called) if called else None,
        "by": "name" if row.named else "beginning",
        "tenant": row.tenant,
        "tenant_name": names.get(row.tenant, ""),
        "first_s": row.first_s,
        "last_s": row.last_s,
        "requests": row.requests,
        "cache_hits": row.hits,
        "failed": row.failed,
        "prompt_tokens": row.prompt_tokens,
        "completion_tokens": row.completion_tokens,
        "cost_usd": row.cost_usd,
        "model": row.model,
        "last_request": row.last_request,
    }
