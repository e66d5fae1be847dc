"""Cost, savings, quality, TTFT, latency and errors over time, for a range, tenant, key or model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from admin.charts import lines, with_intervals
from admin.page import Asked, BadParameter, NotThere, Summary
from admin.sources import Sources
from admin.summaries.quality import offloaded_quality
from admin.summaries.requests import keys_to_choose, tenants_to_choose
from admin.summaries.spans import fitting
from store.decisions.quality_rollups import QualitySums
from store.decisions.rollups import RequestSums, percentile
from store.sums import DAY_S, HOUR_S, MINUTE_S

SPANS = {"15min": 15 * MINUTE_S, "hour": HOUR_S, "day": DAY_S, "week": 7 * DAY_S, "month": 30 * DAY_S}
_LONGEST_S = 400 * DAY_S
_MINUTES_FOR_S, _HOURS_FOR_S = 2 * HOUR_S, 3 * DAY_S
"""Longest ranges that are shown by the minute, and by the hour."""
_MINUTES_KEPT_S, _HOURS_KEPT_S = 2.5 * HOUR_S, 39 * DAY_S
_MOST_TIMED = 5_000


@dataclass(frozen=True, slots=True)
class Range:
    """What is asked for."""

    since_s: int
    until_s: int
    """Both at the border of a bar; the end is not in it."""
    width_s: int
    tenant: str | None
    key_id: str | None
    model: str | None

    @property
    def starts(self) -> range:
        """The beginning of each bar."""
        return range(self.since_s, self.until_s, self.width_s)

    @property
    def of_all(self) -> bool:
        """Whether neither a key nor a model is named: then the gateway's own costs can be told."""
        return self.key_id is None and self.model is None


def trends(sources: Sources, asked: Asked) -> Summary:
    """For `span` (hour, day, week, month), or `from` and `to`; of a `tenant`, `key` or `model` if named."""
    sources.rollups.catch_up()
    wanted = _range(sources, asked)
    sources.store.decisions.quality.catch_up()
    references = sources.gateway.references()
    bars = _requests(sources, wanted, references)
    _add_money(sources, wanted, bars)
    total = _total(bars)
    qualities = sources.store.decisions.quality.sums(
        wanted.width_s,
        wanted.since_s,
        wanted.until_s,
        tenant=wanted.tenant,
        key_id=wanted.key_id,
        model=wanted.model,
    )
    _add_quality(bars, qualities, references)
    timed = _add_times(sources, wanted, bars)
    good = offloaded_quality(qualities, references)
    rows = [bars[start] for start in wanted.starts]
    return {
        "span": "" if asked.text("from") or asked.text("to") else _span(sources, asked),
        "since_s": wanted.since_s,
        "until_s": wanted.until_s,
        "width_s": wanted.width_s,
        "tenant": asked.text("tenant", longest=64),
        "key": wanted.key_id or "",
        "model": wanted.model or "",
        "choices": _choices(sources, asked.text("tenant", longest=64), wanted.key_id or ""),
        "total": total,
        "quality": {"offloaded": good, "all": None, "measured": any(good.values()), "standings": []},
        "timed": timed,
        "rows": rows,
        "charts": _charts(rows),
    }


def _span(sources: Sources, asked: Asked) -> str:
    return asked.choice("span", tuple(SPANS), fitting(sources, asked.now_s, "15min", "hour", "day"))


def _range(sources: Sources, asked: Asked) -> Range:
    since, until = asked.time("from"), asked.time("to")
    if since is None and until is None:
        until = asked.now_s
        since = until - SPANS[_span(sources, asked)]
    else:
        until = min(asked.now_s, asked.now_s if until is None else until)
        since = until - DAY_S if since is None else since
    if since >= until:
        raise BadParameter("from is not before to, or lies in the future", "from")
    if until - since > _LONGEST_S:
        raise BadParameter("from lies more than 400 days before to", "from")
    tenant, key_id = asked.text("tenant", longest=64) or None, asked.text("key", longest=200) or None
    if key_id is not None:
        of_key = next((key.tenant for key in sources.store.keys.listed() if key.id == key_id), None)
        if of_key is None:
            raise NotThere("There is no key with this id, or not any more.")
        if tenant not in (None, of_key):
            raise BadParameter("key belongs to another tenant than the one that is named", "key")
        tenant = of_key
    width = _width_s(since, until, asked.now_s, key_id)
    first, last = int(since) // width * width, -(-int(until) // width) * width
    return Range(
        first, max(last, first + width), width, tenant, key_id, asked.text("model", longest=200) or None
    )


def _width_s(since_s: float, until_s: float, now_s: float, key_id: str | None) -> int:
    """Of a bar. What a key used is known by the hour."""
    length_s = until_s - since_s
    if length_s <= _MINUTES_FOR_S and since_s >= now_s - _MINUTES_KEPT_S and key_id is None:
        return MINUTE_S
    return HOUR_S if length_s <= _HOURS_FOR_S and since_s >= now_s - _HOURS_KEPT_S else DAY_S


def _bar(start_s: int) -> dict[str, Any]:
    at = datetime.fromtimestamp(start_s, UTC).isoformat(timespec="minutes").replace("+00:00", "Z")
    bar: dict[str, Any] = {"start_s": start_s, "start": at}
    bar |= dict.fromkeys(("requests", "cache_hits", "offloaded", "reference", "failed_over", "failed"), 0)
    bar |= {"cost_usd": 0.0, "saved_usd": 0.0, "overheads_usd": None, "always_large_usd": 0.0}
    return bar


def _requests(sources: Sources, wanted: Range, references: Mapping[str, str]) -> dict[int, dict[str, Any]]:
    """Counts and money of every bar, also of those without requests."""
    bars = {start: _bar(start) for start in wanted.starts}
    if wanted.key_id is not None:
        _of_key(sources, wanted, bars)
        return bars
    rows = sources.rollups.requests(
        wanted.width_s, wanted.since_s, wanted.tenant, until_s=wanted.until_s, model=wanted.model
    )
    for row in rows:
        bar = bars[row.start_s]
        bar["requests"] += row.requests
        bar[_kind(row, references)] += row.requests
        bar["cost_usd"] += row.cost_usd
        bar["always_large_usd"] += row.reference_cost_usd
        bar["saved_usd"] += row.reference_cost_usd - (row.cost_usd - row.unreckoned_usd)
    return bars


def _of_key(sources: Sources, wanted: Range, bars: Mapping[int, dict[str, Any]]) -> None:
    """The books know a key's hits and failures; who answered the others is not in them."""
    found = sources.store.decisions.usage.over_time(
        wanted.width_s,
        wanted.since_s,
        wanted.until_s,
        tenant=wanted.tenant,
        key_id=wanted.key_id,
        model=wanted.model,
    )
    for start, bar in bars.items():
        bar["offloaded"] = bar["reference"] = bar["failed_over"] = None
        if (amounts := found.get(start)) is not None:
            bar |= {"requests": amounts.requests, "cache_hits": amounts.hits, "failed": amounts.failed}
            bar["cost_usd"] = amounts.cost_usd
            bar["always_large_usd"] = amounts.reference_usd
            bar["saved_usd"] = amounts.reference_usd - amounts.reckoned_usd


def _kind(row: RequestSums, references: Mapping[str, str]) -> str:
    if row.outcome == "hit":
        return "cache_hits"
    if row.outcome != "answered":
        return "failed_over" if row.outcome == "failed_over" else "failed"
    return "reference" if row.engine == references.get(row.model, row.engine) else "offloaded"


def _add_money(sources: Sources, wanted: Range, bars: Mapping[int, dict[str, Any]]) -> None:
    """What the gateway asked of its own accord, where it is known: by the hour, and for all keys and models together."""
    if not wanted.of_all or wanted.width_s < HOUR_S:
        return
    spent = sources.store.decisions.usage.overheads_over_time(
        wanted.width_s, wanted.since_s, wanted.until_s, tenant=wanted.tenant
    )
    for start, bar in bars.items():
        bar["overheads_usd"] = spent.get(start, 0.0)
        bar["saved_usd"] -= bar["overheads_usd"]


def _add_quality(
    bars: Mapping[int, dict[str, Any]], sums: Sequence[QualitySums], references: Mapping[str, str]
) -> None:
    by_start: dict[int, list[QualitySums]] = {}
    for one in sums:
        by_start.setdefault(one.start_s, []).append(one)
    for start, bar in bars.items():
        found = offloaded_quality(by_start.get(start, ()), references)
        for kind, name, number in (
            ("judge", "quality", "judged"),
            ("feedback", "feedback", "rated"),
            ("review", "review", "reviewed"),
        ):
            mean = found[kind]
            bar[name] = mean["mean"] if mean else None
            bar[f"{name}_low"] = mean["low"] if mean else None
            bar[f"{name}_high"] = mean["high"] if mean else None
            bar[number] = mean["count"] if mean else 0


def _add_times(sources: Sources, wanted: Range, bars: Mapping[int, dict[str, Any]]) -> int | None:
    """Percentiles by bar. None where they are of all requests; else of how many, the latest, they are."""
    if wanted.tenant is None and wanted.of_all:
        counted = sources.rollups.latencies_over_time(wanted.width_s, wanted.since_s, wanted.until_s)
        for start, bar in bars.items():
            for name, measure in (("latency", "total"), ("ttft", "first_chunk")):
                counts = counted.get((start, measure), [])
                bar[f"{name}_p50_ms"], bar[f"{name}_p95_ms"] = (
                    percentile(counts, 0.5),
                    percentile(counts, 0.95),
                )
        return None
    found = sources.store.decisions.requests.timings(
        wanted.since_s,
        wanted.until_s,
        tenant=wanted.tenant,
        key_id=wanted.key_id,
        model=wanted.model,
        limit=_MOST_TIMED,
    )
    times: dict[tuple[int, str], list[float]] = {}
    for one in found:
        start = int(one.at_s) // wanted.width_s * wanted.width_s
        times.setdefault((start, "latency"), []).append(one.total_ms)
        if one.first_chunk_ms is not None:
            times.setdefault((start, "ttft"), []).append(one.first_chunk_ms)
    for start, bar in bars.items():
        for name in ("latency", "ttft"):
            ordered = sorted(times.get((start, name), ()))
            bar[f"{name}_p50_ms"], bar[f"{name}_p95_ms"] = _quantile(ordered, 50), _quantile(ordered, 95)
    return len(found)


def _quantile(ordered: Sequence[float], percent: int) -> float | None:
    """The smallest of the values below or at which so many of a hundred lie; None of none."""
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)] if ordered else None


def _total(bars: Mapping[int, Mapping[str, Any]]) -> Summary:
    """Everything in the range."""
    known = {
        name: _sum(bar[name] for bar in bars.values())
        for name in (
            *("requests", "cache_hits", "offloaded", "reference", "failed_over", "failed"),
            *("cost_usd", "saved_usd", "overheads_usd", "always_large_usd"),
        )
    }
    always = known["always_large_usd"]
    known["saved_share"] = known["saved_usd"] / always if always else None
    known["failed_share"] = known["failed"] / known["requests"] if known["requests"] else None
    return known


def _sum(values: Iterable[float | None]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _choices(sources: Sources, tenant: str, key: str) -> Summary:
    return {
        "tenants": tenants_to_choose(sources, tenant),
        "keys": keys_to_choose(sources, key),
        "models": [model.name for model in sources.gateway.models],
    }


def _charts(rows: Sequence[Mapping[str, Any]]) -> Summary:
    starts = [row["start_s"] for row in rows]

    def of(name: str) -> list[Any]:
        return [row[name] for row in rows]

    def shares(name: str) -> list[float | None]:
        return [
            100 * row[name] / row["requests"] if row["requests"] and row[name] is not None else None
            for row in rows
        ]

    def points(name: str) -> list[tuple[float, float, float] | None]:
        found: list[tuple[float, float, float] | None] = []
        for row in rows:
            known = row[name] is not None
            found.append(
                (100 * row[name], 100 * row[f"{name}_low"], 100 * row[f"{name}_high"]) if known else None
            )
        return found

    return {
        "money": lines(
            starts,
            [
                ("always-large", of("always_large_usd"), "muted"),
                ("cost", of("cost_usd"), "series-2"),
                ("saved", of("saved_usd"), "good"),
            ],
            unit="$",
            times=True,
        ),
        "quality": with_intervals(
            starts,
            [
                ("judge", points("quality"), "series-1"),
                ("feedback", points("feedback"), "series-4"),
                ("review", points("review"), "series-6"),
            ],
            unit="% of the reference's quality",
        ),
        "ttft": _percentiles(starts, rows, "ttft"),
        "latency": _percentiles(starts, rows, "latency"),
        "shares": lines(
            starts,
            [
                ("failed", shares("failed"), "bad"),
                ("failed over", shares("failed_over"), "series-8"),
                ("offloaded", shares("offloaded"), "series-1"),
                ("cache hits", shares("cache_hits"), "series-3"),
            ],
            unit="% of requests",
            times=True,
        ),
    }


def _percentiles(starts: Sequence[int], rows: Sequence[Mapping[str, Any]], name: str) -> Summary:
    return lines(
        starts,
        [
            ("p50", [row[f"{name}_p50_ms"] for row in rows], "series-1"),
            ("p95", [row[f"{name}_p95_ms"] for row in rows], "series-2"),
        ],
        unit="ms",
        times=True,
    )
