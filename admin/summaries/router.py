"""The router: which engine answered over time and why, how much is explored, drift, and the routing settings in force."""

from __future__ import annotations

from collections import Counter
from typing import Any

from admin.formats import tenant_label
from admin.page import Asked, BadParameter, Summary
from admin.sources import Sources
from admin.summaries.dials import dials
from admin.summaries.quality import STANDINGS
from admin.summaries.spans import SPANS, fitting
from admin.summaries.what_if import prepare
from admin.words import REASONS
from store.decisions.rollups import RequestSums
from store.sums import MINUTE_S

_LATEST = 3_000
_BLOCKS = 12
_FLOORS_SHOWN = 50
_OTHERS = ("series-1", "series-4", "series-5", "series-6", "series-7", "series-8")
_TRIED = ("explored",)
_UNFAMILIAR = ("novel",)


def router(sources: Sources, asked: Asked) -> Summary:
    """For one served model: `model`; `span`: 15min, hour, day or week."""
    span = asked.choice("span", tuple(SPANS), fitting(sources, asked.now_s, "15min", "hour"))
    names = [model.name for model in sources.gateway.models]
    model = asked.text("model", longest=200) or (names[0] if names else "")
    if model and model not in names:
        raise BadParameter(f"model is {model[:60]!r}; one of {', '.join(names)} is right")
    prepare(sources, asked, model)
    length_s, step_s = SPANS[span]
    sums = sources.rollups.requests(step_s, asked.now_s - length_s, model=model)
    served = next((each for each in sources.gateway.models if each.name == model), None)
    return {
        "span": span,
        "model": model,
        "models": names,
        "policy": served.policy if served else "",
        "engines": list(served.engines) if served else [],
        "shares": _shares(
            sums, served.engines[-1] if served else "", asked.now_s - length_s, asked.now_s, step_s
        ),
        "reasons": (reasons := _reasons(sources, model, asked.now_s - length_s)),
        "drift": _drift(reasons.pop("rows")),
        "learnt": _learnt(sources, model),
        "floors": _floors(sources, model),
        "settings": dials(sources, model),
    }


def _shares(
    sums: list[RequestSums], reference: str, since_s: float, now_s: float, step_s: float
) -> dict[str, Any]:
    """Requests by who answered, over time; memory and the reference have the same colours as in the overview."""
    totals: Counter[str] = Counter()
    by_start: dict[float, Counter[str]] = {}
    for row in sums:
        who = (
            "cache hit"
            if row.outcome == "hit"
            else "failed over"
            if row.outcome == "failed_over"
            else f"{row.engine or 'nobody'}{', few-shot' if row.with_examples else ''}"
        )
        totals[who] += row.requests
        by_start.setdefault(row.start_s, Counter())[who] += row.requests
    starts = sorted(by_start)
    order = [who for who, _ in totals.most_common()]
    others = (who for who in order if who not in ("cache hit", reference))
    colours = {who: _OTHERS[place % len(_OTHERS)] for place, who in enumerate(others)}
    colours |= {"cache hit": "series-3", reference: "series-2"}
    return {
        "totals": dict(totals.most_common()),
        "chart": {
            "traces": [
                {
                    "type": "bar",
                    "name": who,
                    "x": [int(start * 1000) for start in starts],
                    "y": [by_start[start][who] for start in starts],
                    "marker": {"color": colours[who]},
                    # Without a width plotly draws a single bar as thin as a line.
                    "width": 850 * step_s,
                    "hovertemplate": "%{y} requests<extra>%{fullData.name}</extra>",
                }
                for who in order
            ],
            "layout": {
                "barmode": "stack",
                # The whole period, as in the overview: a single bar would fill the picture otherwise.
                "xaxis": {
                    "type": "date",
                    "fixedrange": True,
                    "range": [int(since_s * 1000), int((now_s + step_s / 2) * 1000)],
                },
                "yaxis": {
                    "title": {"text": "requests a minute" if step_s == MINUTE_S else "requests an hour"},
                    "rangemode": "tozero",
                    "fixedrange": True,
                },
            },
        },
    }


def _reasons(sources: Sources, model: str, since_s: float) -> dict[str, Any]:
    """The reasons of the latest requests of the period, a bounded number."""
    rows = sources.store.decisions.requests.latest_reasons(model, since_s=since_s, limit=_LATEST)
    counts = Counter(reason.removesuffix("+failover") for _, reason in rows)
    total = sum(counts.values())
    return {
        "requests": total,
        "explored": sum(counts[code] for code in _TRIED) / total if total else None,
        "by_reason": [
            {"reason": reason, "why": REASONS.get(reason, reason), "requests": count, "share": count / total}
            for reason, count in counts.most_common()
        ],
        "rows": rows,
    }


def _drift(rows: list[tuple[float, str]]) -> dict[str, Any]:
    """The same in blocks of equally many requests: the shares of unfamiliar and of explored ones."""
    rows = sorted(rows)
    size = max(1, -(-len(rows) // _BLOCKS))
    blocks = []
    for start in range(0, len(rows), size):
        block = rows[start : start + size]
        reasons = Counter(reason.removesuffix("+failover") for _, reason in block)
        blocks.append(
            {
                "at_s": block[-1][0],
                "requests": len(block),
                "unfamiliar": sum(reasons[code] for code in _UNFAMILIAR) / len(block),
                "explored": sum(reasons[code] for code in _TRIED) / len(block),
            }
        )
    instants = [int(block["at_s"] * 1000) for block in blocks]
    return {
        "blocks": blocks,
        "chart": {
            "traces": [
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "name": says,
                    "x": instants,
                    "y": [block[name] for block in blocks],
                    "line": {"color": colour, "width": 2},
                    "marker": {"color": colour},
                }
                for name, says, colour in (
                    ("unfamiliar", "novel", "series-2"),
                    ("explored", "exploration", "series-5"),
                )
            ],
            "layout": {
                "xaxis": {"type": "date", "fixedrange": True},
                "yaxis": {
                    "title": {"text": "share of decisions"},
                    "tickformat": ".0%",
                    "rangemode": "tozero",
                    "fixedrange": True,
                },
            },
        },
    }


def _learnt(sources: Sources, model: str) -> list[dict[str, Any]]:
    """What the router of this model has learnt, by tenant, and from how many outcomes."""
    names = sources.tenant_names()
    counts: dict[str, int] = {}
    for (tenant, of, _), count in sources.store.outcomes.counts().items():
        if of == model:
            counts[tenant] = counts.get(tenant, 0) + count
    rows = []
    for tenant, count in sorted(counts.items(), key=lambda each: -each[1])[:50]:
        bandit = sources.store.artifacts.best("bandit", tenant, model)
        rows.append(
            {
                "tenant": tenant,
                "name": tenant_label(names, tenant),
                "outcomes": count,
                "router": bandit.id if bandit else None,
                "since_s": bandit.created_at_s if bandit else None,
            }
        )
    return rows


def _floors(sources: Sources, model: str) -> list[dict[str, Any]]:
    names = sources.tenant_names()
    rows = sources.store.quality_floors.all(model=model)[:_FLOORS_SHOWN]
    return [
        {
            "name": tenant_label(names, row.tenant),
            "cap": row.cap,
            "standing": STANDINGS[row.standing],
            "at_s": row.at_s,
        }
        for row in rows
    ]
