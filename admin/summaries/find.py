"""One search box: what an id is the id of, or a name the name of; words otherwise."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from admin.page import Asked, Summary
from admin.roles import Content
from admin.sources import Sources
from store.decisions.resolve import Hit

_LONGEST = 1000
_WORDS_LONGEST = 200
KINDS = {
    "request": "Request",
    "session": "Session",
    "user": "End user",
    "example": "Example",
    "key": "Key",
    "tenant": "Tenant",
}


def find(sources: Sources, asked: Asked) -> Summary:
    """What `q` names. `to`: where to go at once, because it names one thing, or nothing but words.

    A name that clients give (an end user, a session) is content: only who may read it finds by it. All find by ids.
    """
    text = asked.text("q", longest=_LONGEST)
    may_read = asked.viewer.role.reads_content
    hits = [hit for hit in sources.store.decisions.resolve.find(text) if may_read or _is_by_id(hit, text)]
    names = sources.tenant_names()
    rows = [_row(hit, names) for hit in hits]
    to = ""
    if len(rows) == 1:
        to = rows[0]["path"]
    elif not rows and text and may_read and len(text) <= _WORDS_LONGEST:
        to = "/requests?" + urlencode({"q": text})
    return {"q": Content(text), "searched": bool(text), "rows": rows, "to": to}


def _is_by_id(hit: Hit, text: str) -> bool:
    return hit.kind not in ("session", "user") or hit.id == text


def _row(hit: Hit, names: dict[str, str]) -> dict[str, Any]:
    return {
        "kind": hit.kind,
        "kind_name": KINDS[hit.kind],
        "id": hit.id,
        "tenant": hit.tenant,
        "tenant_name": names.get(hit.tenant, ""),
        "path": _path(hit),
    }


def _path(hit: Hit) -> str:
    if hit.kind in ("request", "example"):
        return f"/{hit.kind}s/{quote(hit.id, safe='')}"
    if hit.kind == "session":
        return f"/sessions/{quote(hit.tenant, safe='')}/{quote(hit.id, safe='')}"
    if hit.kind == "user":
        return "/requests?" + urlencode({"user": hit.id, "tenant": hit.tenant})
    if hit.kind == "key":
        return f"/keys/{quote(hit.id, safe='')}"
    return f"/tenants/{quote(hit.id, safe='')}"
