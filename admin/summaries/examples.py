"""A tenant's bank of examples: found by words or by similarity, sorted by gain, use or age."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from admin.actions import NotDone
from admin.choices import offered
from admin.formats import tenant_label
from admin.page import ActionFailed, Asked, BadParameter, Summary
from admin.roles import Content
from admin.sources import Sources
from store.examples.accounting import decayed
from store.examples.search import FoundExamples, Sort, Which
from store.records import Example

ROWS = 50
SORTS: dict[Sort, str] = {
    "newest": "newest",
    "oldest": "oldest",
    "gain": "improvement potential",
    "uses": "most used",
}
WHICH: dict[Which, str] = {
    "": "all",
    "observed": "observed in traffic",
    "demonstration": "human-corrected",
    "pinned": "pinned",
    "flagged": "conflicting duplicates",
    "held_back": "quarantined",
}
_PREVIEW_CHARACTERS = 240


def examples(sources: Sources, asked: Asked) -> Summary:
    """Filters: `tenant`, `q` for words, `near` for a text to compare with, `which`, `sort`; `skip` for the next page.

    What is found by words or by likeness comes in its own order, the best first, whatever `sort` says.
    """
    tenants = _tenants(sources)
    tenant = asked.text("tenant", longest=200) or (tenants[0]["id"] if tenants else "")
    words, near = asked.text("q", longest=200), asked.text("near", longest=2000)
    if (words or near) and not asked.viewer.role.reads_content:
        raise BadParameter("q and near look into what people wrote, which your role may not read")
    if words and near:
        raise BadParameter("q and near are two ways to search; give one of them")
    sort, which = asked.choice("sort", tuple(SORTS), "newest"), asked.choice("which", tuple(WHICH), "")
    found = _found(sources, tenant, words, near, next(s for s in SORTS if s == sort), asked)
    kept = {"tenant": tenant, "q": words, "near": near, "which": which, "sort": sort}
    likeness = found.similarities or [None] * len(found.rows)
    skipped = asked.whole("skip", 0, most=10_000)
    shown_so_far = skipped + len(found.rows)
    totals = sources.store.examples.totals(tenant)
    return {
        "tenant": tenant,
        "tenants": offered(tenants, tenant),
        "q": words,
        "near": near,
        "sort": "relevance" if words else "similarity" if near else sort,
        "which": which,
        "sorts": list(SORTS.items()),
        "whiches": list(WHICH.items()),
        "total": totals.examples,
        "size_bytes": totals.size_bytes,
        "first": skipped + 1 if found.rows else 0,
        "last": shown_so_far,
        # Where nobody counted, only the last page tells how many there are.
        "matches": found.matches
        if found.matches is not None
        else shown_so_far
        if found.next is None and found.all_looked_at
        else None,
        "rows": [
            shown(example, asked.now_s)
            | {
                "similarity": similarity,
                "question": Content(example.question[:_PREVIEW_CHARACTERS]),
                "answer": Content(example.answer[:_PREVIEW_CHARACTERS]),
            }
            for example, similarity in zip(found.rows, likeness, strict=True)
        ],
        "all_looked_at": found.all_looked_at,
        "next": None
        if found.next is None
        else urlencode({name: value for name, value in kept.items() if value} | {"skip": found.next}),
        "can_be_near": sources.gateway.actions.embed is not None,
    }


def shown(example: Example, now_s: float) -> dict[str, Any]:
    """An example in a list, without its texts."""
    return {
        "id": example.id,
        "tenant": example.tenant,
        "kind": example.kind,
        "engine": example.source_engine,
        "created_at_s": example.created_at_s,
        "request_id": example.request_id,
        "uses": example.uses,
        "last_used_at_s": example.last_used_at_s,
        "improvement_potential": round(decayed(example.gain, example.gain_at_s, now_s), 6),
        "quality": example.quality,
        "judgements": example.quality_count,
        "pinned": example.pinned,
        "flagged": example.flagged,
        "merged": example.merged,
        "held": held(example, now_s),
        "served_from_s": example.served_from_s,
        "size_bytes": example.size_bytes,
    }


def held(example: Example, now_s: float) -> str:
    """Whether it is quarantined: "by hand", "new" (its contributor is), or empty."""
    if example.served_from_s <= now_s:
        return ""
    return "by hand" if example.held_back_by_hand else "new"


def _found(sources: Sources, tenant: str, words: str, near: str, sort: Sort, asked: Asked) -> FoundExamples:
    search = sources.store.examples.search
    which = next(w for w in WHICH if w == asked.text("which"))
    skip = asked.whole("skip", 0, most=10_000)
    if near:
        actions = sources.gateway.actions
        if actions.embed is None:
            raise ActionFailed("This gateway keeps no examples: memory.examples.enabled is off.")
        try:
            vector, version = actions.embed(near), actions.embedding_version()
        except NotDone as error:
            raise ActionFailed(str(error)) from error
        return search.nearest(tenant, vector, version, which=which, limit=ROWS)
    if words:
        return search.with_words(tenant, words, which=which, skip=skip, limit=ROWS)
    return search.page(tenant, sort=sort, which=which, skip=skip, limit=ROWS)


def _tenants(sources: Sources) -> list[dict[str, Any]]:
    """Tenants with their number of examples, the largest first."""
    names = sources.tenant_names()
    counts = sorted(sources.store.examples.tenants().items(), key=lambda each: (-each[1], each[0]))
    return [
        {"id": tenant, "name": tenant_label(names, tenant), "examples": count} for tenant, count in counts
    ]
