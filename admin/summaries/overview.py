"""What happened lately, and what it came to: requests, hits, offloading, cost."""

from __future__ import annotations

from admin.page import Asked, Summary
from admin.sources import Sources

SPANS = {"hour": 3600.0, "day": 86_400.0, "week": 7 * 86_400.0}


def overview(sources: Sources, asked: Asked) -> Summary:
    """For `span`: hour, day or week."""
    span = asked.choice("span", tuple(SPANS), "hour")
    totals = sources.store.decisions.totals(asked.now_s - SPANS[span])
    return {
        "span": span,
        "requests": totals.requests,
        "exact_hits": totals.exact_hits,
        "offloaded": totals.offloaded,
        "by_engine": dict(totals.by_engine),
        "cost_usd": totals.cost_usd,
    }
