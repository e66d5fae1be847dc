"""Cache page: the stored answers, and their purge."""

from __future__ import annotations

from admin.page import Action, Asked, Done, Page
from admin.sources import Sources
from admin.summaries.cache import cache, wanted

_WAIT_S = 60.0


def purge(sources: Sources, asked: Asked) -> Done:
    """Deletes stored answers. Form fields: `what` and `of`; `really`, yes: without it they are only counted."""
    which, named = wanted(sources, asked)
    target = " ".join(filter(None, (asked.text("what"), asked.text("of", longest=200))))
    if asked.choice("really", ("", "yes"), "") != "yes":
        found = sources.store.answers.listing.count(which)
        shown = {
            "what": asked.text("what"),
            "of": asked.text("of"),
            "named": named,
            "exact": found.exact,
            "similar": found.similar,
        }
        return Done("Nothing is deleted yet.", target=target, detail={"dry_run": True}, shown=shown)
    gone = sources.store.answers.listing.purge(which).result(_WAIT_S)
    return Done(
        f"Purged: {gone.exact:,} answers to identical requests and {gone.similar:,} to similar ones were deleted.",
        "/cache",
        target=target,
        detail={"exact": gone.exact, "similar": gone.similar},
    )


CACHE = Page(
    "/cache",
    "Cache",
    "cache.html",
    cache,
    csv="rows",
    actions=(Action("/cache/purge", purge, template="cache_purge.html"),),
)
