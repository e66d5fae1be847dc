"""How much of the limits of a key or a tenant is used now, and what its requests used and cost."""

from __future__ import annotations

from admin.page import Summary
from admin.sources import Sources
from store.decisions.usage import Dimension
from store.people.allowance import NANO, USD
from store.people.limits import Limits
from store.validating import fields_of

DAYS = {"day": 1, "week": 7, "month": 30}
"""Days by the name of a span."""
_MOST_ROWS = 100
_PERIODS = {"day": "per day", "week": "per week", "month": "per month", "total": "in all"}
_RATES = {"requests": "requests_per_minute", "tokens": "tokens_per_minute"}
"""The limits per minute, by the kind that their windows have."""


def limit_use(sources: Sources, scope: str, limits: Limits, now_s: float) -> list[Summary]:
    """A row per limit: what it limits, how much of it is used in the window that goes on, and when that ends.

    `used` is None where nobody counts it up: each request is measured by itself, or workers hand out what comes back.
    """
    standings = {
        one.window.kind: one
        for one in sources.store.allowances.standings(scope, now_s)
        if one.window.start_s <= now_s
    }
    rows = []
    for budget in limits.budgets:
        found = standings.get(USD + budget.per)
        spent = found.spent / NANO if found else 0.0
        ends_s = found.window.ends_s if found and budget.per != "total" else None
        rows.append(_row(f"Budget {_PERIODS[budget.per]}", "usd", budget.usd, spent, ends_s))
    for kind, name in _RATES.items():
        if (most := getattr(limits, name)) is not None:
            found = standings.get(kind)
            used = found.spent if found else 0
            rows.append(_row(_label(name), "count", most, used, found.window.ends_s if found else None))
    rows += [
        _row(_label(name), "count", most, None, None)
        for name in ("concurrency", "max_output_tokens")
        if (most := getattr(limits, name)) is not None
    ]
    return rows


def _label(name: str) -> str:
    return fields_of(Limits)[name].title or name


def fullest(rows: list[Summary]) -> float | None:
    """The largest share used of any limit; None without a limit that is counted."""
    shares = [row["share"] for row in rows if row["share"] is not None]
    return max(shares, default=None)


def usage_by(
    sources: Sources,
    dimension: Dimension,
    since_s: float,
    now_s: float,
    *,
    tenant: str | None = None,
    key_id: str | None = None,
) -> list[Summary]:
    """What clients' requests used, by a dimension, the dearest first."""
    sums = sources.store.decisions.usage.sums(
        (dimension,), since_s=since_s, until_s=now_s + 3600, tenant=tenant, key_id=key_id
    )
    return [
        {
            dimension: getattr(one, dimension),
            "requests": one.amounts.requests,
            "failed": one.amounts.failed,
            "hits": one.amounts.hits,
            "tokens": one.amounts.prompt_tokens + one.amounts.completion_tokens,
            "cost_usd": one.amounts.cost_usd,
            "saved_usd": one.amounts.reference_usd - one.amounts.reckoned_usd,
            "unpriced": one.amounts.unpriced,
        }
        for one in sums
        if one.line == "answer"
    ][:_MOST_ROWS]


def _row(name: str, unit: str, limit: float, used: float | None, ends_s: float | None) -> Summary:
    share = None if used is None else used / limit if limit else 1.0
    return {"name": name, "unit": unit, "limit": limit, "used": used, "share": share, "ends_at_s": ends_s}
