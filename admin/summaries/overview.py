"""Recent requests and their results: hits, offloading, quality, cost, latency by stage, load."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from admin.charts import stacked
from admin.choices import offered
from admin.formats import tenant_label
from admin.page import Asked, Summary
from admin.sources import Sources
from admin.summaries.attention import attention
from admin.summaries.capacity import capacity
from admin.summaries.engine_load import engine_load, slow_engines
from admin.summaries.quality import floors, of_all, offloaded_quality, standings
from admin.summaries.spans import SPANS, fitting
from admin.summaries.spans import since_s as begins_s
from admin.summaries.tenant_quality import shown as tenants_shown
from admin.summaries.tenant_quality import tenant_quality
from admin.summaries.why_not import why_not
from admin.usage_report import usage_total
from engines.student import STUDENT
from learning.guarantee.quality_alarm import quality_standings
from learning.outcomes.account import IN_VAIN_USD, UNREAD
from store.decisions.rollups import LatencyCount, RequestSums, StageSums, percentile
from store.sums import DAY_S, HOUR_S, MINUTE_S

_KINDS = (
    ("cache_hit", "series-3"),
    ("offloaded", "series-1"),
    ("reference", "series-2"),
    ("failed_over", "series-8"),
    ("failed", "bad"),
)
_SAVED_BY = ("cache_hit", "offloaded", "students", "other")
"""Ways of answering that save; `other`: extra calls for answers of the reference, and the like."""
RATE_S = 60.0
"""Seconds that the present rate of requests is taken over."""
_STAGES = ("exact", "replay", "semantic", "embed", "nearest", "score", "combine", "choose")
"""In the order in which a request passes them."""


def overview(sources: Sources, asked: Asked) -> Summary:
    """For `span` (15min, hour, day or week), and a `tenant`'s id if one is given."""
    span = asked.choice("span", tuple(SPANS), fitting(sources, asked.now_s, "15min", "hour"))
    tenant = asked.text("tenant", longest=64) or None
    width_s = SPANS[span][1]
    since_s = begins_s(span, asked.now_s)
    rollups = sources.rollups
    rollups.catch_up()
    rows = rollups.requests(width_s, since_s, tenant)
    references = sources.gateway.references()
    kinds = {kind: sum(r.requests for r in rows if _kind(r, references) == kind) for kind, _ in _KINDS}
    answered = kinds["offloaded"] + kinds["reference"]
    sources.store.decisions.quality.catch_up()
    good = offloaded_quality(
        sources.store.decisions.quality.sums(width_s, since_s, tenant=tenant, by_time=False), references
    )
    stands = standings(
        quality_standings(
            sources.store.decisions.quality,
            references,
            sources.gateway.quality_alarm,
            asked.now_s,
            tenant=tenant,
        )
    )
    names = sources.tenant_names()
    # Of one that was chosen `stands` tells.
    each = None if tenant else tenants_shown(tenant_quality(sources), names)
    # Of all tenants, whichever was selected: see store.decisions.rollups.
    # A week is read by whole days: the figures are the same as by hours, in a tenth of the time.
    wide_s = DAY_S if span == "week" else width_s
    wide_since_s = since_s // wide_s * wide_s
    everyone = rollups.requests(wide_s, wide_since_s, by_time=False)
    traffic = _traffic(rows, references, since_s, asked.now_s, width_s)
    stages = _stages(everyone, rollups.stages(wide_s, wide_since_s))
    latencies = rollups.latencies(wide_s, wide_since_s)
    load, workers = engine_load(sources, asked.now_s), capacity(sources)
    promises = floors(sources.store.quality_floors.all(tenant), names, asked.now_s)
    money = _money(sources, rows, references, since_s, asked.now_s, tenant)
    failed_share = _share(kinds["failed"], sum(kinds.values()))
    return {
        "span": span,
        "since_s": since_s,
        "tenant": tenant or "",
        "tenants": offered(
            _tenants(sources, names, since_s, max(wide_s, HOUR_S), tenant or ""), tenant or ""
        ),
        "behind": rollups.behind(),
        "requests": sum(kinds.values()),
        "per_second": sources.store.decisions.requests.begun(asked.now_s - RATE_S, tenant) / RATE_S,
        "kinds": kinds,
        "hit_share": _share(kinds["cache_hit"], sum(kinds.values())),
        "offload_share": _share(kinds["offloaded"], answered),
        "failed_share": failed_share,
        "attention": attention(
            sources,
            load,
            promises,
            quality=stands,
            tenants=each,
            slow=slow_engines(sources, load, asked.now_s),
            shedding=workers["shedding"],
            tenant=tenant or "",
            tenant_name=tenant_label(names, tenant) if tenant else "",
            failed_share=failed_share,
            saved_usd=money["saved_usd"],
            failed_at=f"/requests?way=failed&within={span}" + (f"&tenant={quote(tenant)}" if tenant else ""),
        ),
        "quality": {
            "offloaded": good,
            "all": of_all(good["judge"], kinds["offloaded"], answered),
            "measured": any(good.values()),
            "standings": stands,
            "tenants": each,
        },
        "judging": sources.gateway.judged,
        "floors": promises,
        "why_not": why_not(sources, tenant, names),
        "money": money,
        "latency": {
            name: {
                "p50_ms": percentile(_histogram(latencies, measure), 0.5),
                "p95_ms": percentile(_histogram(latencies, measure), 0.95),
            }
            for name, measure in (("total", "total"), ("ttft", "first_chunk"))
        },
        "stages": stages,
        "traffic": traffic,
        "engines": load,
        "workers": workers,
        "charts": {
            "traffic": _traffic_chart(
                traffic, "requests a minute" if width_s == MINUTE_S else "requests an hour"
            ),
            "stages": _stages_chart(stages),
        },
    }


def _kind(row: RequestSums, references: dict[str, str]) -> str:
    if row.outcome == "hit":
        return "cache_hit"
    if row.outcome != "answered":
        return "failed_over" if row.outcome == "failed_over" else "failed"
    return "reference" if row.engine == references.get(row.model, row.engine) else "offloaded"


def _saves_by(row: RequestSums, references: dict[str, str]) -> str:
    kind = _kind(row, references)
    if kind == "offloaded" and row.engine == STUDENT:
        return "students"
    return kind if kind in _SAVED_BY else "other"


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _tenants(
    sources: Sources, names: dict[str, str], since_s: float, width_s: int, chosen: str
) -> list[Summary]:
    """Those with requests since then, and the chosen one."""
    seen = {tenant for tenant, *_ in sources.rollups.by_tenant(since_s, width_s)}
    seen |= {chosen} if chosen else set()
    found = [{"id": tenant, "name": tenant_label(names, tenant)} for tenant in seen]
    return sorted(found, key=lambda one: one["name"])


def _money(
    sources: Sources,
    rows: Sequence[RequestSums],
    references: dict[str, str],
    since_s: float,
    now_s: float,
    tenant: str | None,
) -> Summary:
    """Costs compared with sending everything to the reference engine, of the requests for which that is known."""
    paid = sum(row.cost_usd for row in rows)
    unreckoned = sum(row.unreckoned_usd for row in rows)
    always_large = sum(row.reference_cost_usd for row in rows)
    spent = sources.store.decisions.spending.spent
    judging = sources.store.outcomes.spent_usd(since_s, tenant) + spent(IN_VAIN_USD, since_s, now_s, tenant)
    replay = sum(
        line.spent.most_usd for line in sources.store.jobs.replay.spend(since_s=since_s, tenant=tenant)
    )
    by_hand = sources.store.jobs.operator_asks.spent_usd(since_s, tenant)
    total = usage_total(
        sources.store.decisions.usage.sums(since_s=since_s, until_s=now_s + HOUR_S, tenant=tenant)
    )
    by_way = dict.fromkeys(_SAVED_BY, 0.0)
    for row in rows:
        by_way[_saves_by(row, references)] += row.reference_cost_usd - (row.cost_usd - row.unreckoned_usd)
    learning = judging + replay
    # What sums of fractions leave is no loss to be warned of.
    saved = round(always_large - (paid - unreckoned) - learning - by_hand - total["warm_usd"], 9) + 0.0
    return {
        "saved_by": by_way,
        "before_learning_usd": sum(by_way.values()),
        "learning_usd": learning,
        "verdict_share": _share(total["judge_usd"], total["judge_usd"] + total["shadow_usd"]),
        "paid_usd": paid,
        "examples_usd": total["examples_usd"],
        "unpriced": total["unpriced"],
        "component_usd": total["component_usd"],
        "warm_usd": total["warm_usd"],
        "always_large_usd": always_large,
        "judging_usd": judging,
        "unread": int(spent(UNREAD, since_s, now_s, tenant)),
        "replay_usd": replay,
        "manual_queries_usd": by_hand,
        "saved_usd": saved,
        "saved_share": saved / always_large if always_large else None,
        "unreckoned_usd": unreckoned,
        "unreckoned": sum(row.unreckoned for row in rows if row.outcome in ("hit", "answered")),
    }


def _histogram(latencies: Sequence[LatencyCount], measure: str) -> list[tuple[int, int]]:
    counts: dict[int, int] = {}
    for row in latencies:
        if row.measure == measure:
            counts[row.bucket] = counts.get(row.bucket, 0) + row.requests
    return sorted(counts.items())


def _stages(rows: Sequence[RequestSums], stages: Sequence[StageSums]) -> list[Summary]:
    """Mean milliseconds by engine: the gateway's stages, the rest of its overhead, and the engine's part."""
    found = []
    for engine in sorted({row.engine for row in rows}):
        mine = [row for row in rows if row.engine == engine and row.outcome in ("hit", "answered")]
        requests = sum(row.requests for row in mine)
        if not requests:
            continue
        own = {s.stage: s.sum_ms / max(1, s.requests) for s in stages if s.engine == engine}
        # A stage that not every request passes is weighted by the share of those that do.
        share = {s.stage: min(1.0, s.requests / requests) for s in stages if s.engine == engine}
        parts = {name: own[name] * share[name] for name in sorted(own, key=_place)}
        overhead = sum(row.overhead_ms for row in mine) / requests
        total = sum(row.total_ms for row in mine) / requests
        streams = sum(row.streams for row in mine)
        found.append(
            {
                "engine": engine,
                "requests": requests,
                "stages_ms": parts,
                "other_ms": max(0.0, overhead - sum(parts.values())),
                "overhead_ms": overhead,
                "engine_ms": max(0.0, total - overhead),
                "ttft_ms": sum(row.first_chunk_ms for row in mine) / streams if streams else None,
                "total_ms": total,
            }
        )
    return found


def _place(stage: str) -> tuple[int, str]:
    return (_STAGES.index(stage) if stage in _STAGES else len(_STAGES), stage)


def _traffic(
    rows: Sequence[RequestSums], references: dict[str, str], since_s: float, now_s: float, width_s: int
) -> list[Summary]:
    """Requests by kind, bar by bar, including empty bars."""
    starts = range(int(since_s), int(now_s) + 1, width_s)
    counts = {start: dict.fromkeys((kind for kind, _ in _KINDS), 0) for start in starts}
    for row in rows:
        if row.start_s in counts:
            counts[row.start_s][_kind(row, references)] += row.requests
    return [{"start_s": start, **kinds} for start, kinds in counts.items()]


def _traffic_chart(bars: Sequence[Summary], unit: str) -> Summary:
    return stacked(
        [bar["start_s"] for bar in bars],
        [(kind.replace("_", " "), [bar[kind] for bar in bars], colour) for kind, colour in _KINDS],
        times=True,
        unit=unit,
    )


def _stages_chart(groups: Sequence[Summary]) -> Summary:
    names = sorted({name for group in groups for name in group["stages_ms"]}, key=_place)
    series = [
        (name, [group["stages_ms"].get(name, 0.0) for group in groups], f"series-{i % 7 + 1}")
        for i, name in enumerate(names)
    ]
    series.append(("other", [group["other_ms"] for group in groups], "series-8"))
    return stacked(
        [group["engine"] or "cache" for group in groups], series, across=True, unit="ms of gateway overhead"
    )
