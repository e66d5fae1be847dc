"""The report as plain data, from which every other form of it is made."""

from __future__ import annotations

from typing import Any

import numpy as np

from loadtest.plan import LoadPlan
from loadtest.totals import HEAT_EDGES_S, Totals

PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)
_CURVE = (0.1, 0.5, *range(1, 100), 99.5, 99.9, 99.99, 100.0)
HELD_SHARE_LIMIT = 0.001


def summarise(
    plan: LoadPlan,
    totals: Totals,
    *,
    started_at: str,
    interrupted: bool = False,
    failure: str = "",
    max_lateness_ms: float = 2.0,
) -> dict[str, Any]:
    """The whole report. Times are in ms, rates per s, costs in USD; percentile keys are such as `p99.9`."""
    measured_s = (
        max(1e-9, min(plan.duration_s, totals.last_due_s + 1e-9) - plan.warmup_s) if totals.done else 0.0
    )
    if totals.done and not interrupted and plan.arrivals.kind != "trace" and not plan.max_requests:
        measured_s = plan.duration_s - plan.warmup_s
    failed = totals.done - totals.ok
    answered_s = max(measured_s, totals.last_end_s - plan.warmup_s) if totals.done else 0.0
    return {
        "format": 1,
        "target": {
            "name": plan.target.label,
            "base_url": plan.target.base_url,
            "endpoint": plan.target.endpoint,
        },
        "started_at": started_at,
        "interrupted": interrupted,
        "failure": failure,
        "plan": describe_plan(plan),
        "requests": {
            "measured": totals.done,
            "ok": totals.ok,
            "failed": failed,
            "timed_out": sum(n for name, n in totals.outcomes.items() if name.startswith("timeout")),
            "unfinished": sum(n for name, n in totals.outcomes.items() if name.startswith("stopped")),
            "unfinished_longest_ms": round(totals.unfinished_longest_s * 1e3, 3),
            "warm_up": totals.warm_requests,
        },
        "rates": {
            "measured_s": round(measured_s, 3),
            "offered_per_s": _rate(totals.done, measured_s),
            "ok_per_s": _rate(totals.ok, answered_s),
            "chunks_per_s": _rate(totals.chunks, answered_s),
            "tokens_out_per_s": _rate(totals.tokens_out, answered_s),
            "failed_share": round(failed / totals.done, 6) if totals.done else 0.0,
        },
        **{
            f"{metric}_ms": percentiles_ms(totals.hist[metric])
            for metric in ("latency", "ttft", "tpot", "gap")
        },
        "distribution": {m: distribution_ms(totals.hist[m]) for m in ("latency", "ttft", "tpot", "gap")},
        "coalesced_share": round(totals.coalesced / max(1, totals.hist["gap"].total_count), 6),
        "goodput": _goodput(totals, measured_s),
        "outcomes": dict(totals.outcomes.most_common()),
        "engines": _shares(totals.engines),
        "cache": _shares(totals.caches),
        "models": {
            name: {"answers": int(n), "tokens_in": int(tokens_in), "tokens_out": int(tokens_out)}
            for name, (n, tokens_in, tokens_out) in totals.model_tokens.items()
        },
        "cost_usd": _cost(totals),
        "quality": (
            {"mean": round(totals.quality_sum / totals.quality_count, 6), "judged": totals.quality_count}
            if totals.quality_count
            else None
        ),
        "generator": _generator(plan, totals, max_lateness_ms),
        "timeline": _timeline(totals),
    }


def percentiles_ms(hist: Any) -> dict[str, float] | None:
    """Percentiles in ms of a histogram in microseconds; None if it is empty."""
    if not hist.total_count:
        return None
    found = {f"p{p:g}": round(hist.get_value_at_percentile(p) / 1e3, 4) for p in PERCENTILES}
    found["min"] = round(hist.get_min_value() / 1e3, 4)
    found["mean"] = round(hist.get_mean_value() / 1e3, 4)
    found["max"] = round(hist.get_max_value() / 1e3, 4)
    found["count"] = int(hist.total_count)
    return found


def distribution_ms(hist: Any) -> list[list[float]]:
    """A curve of [share, ms] points, denser at the upper end; empty for an empty histogram."""
    if not hist.total_count:
        return []
    points = [[p / 100, round(hist.get_value_at_percentile(p) / 1e3, 4)] for p in _CURVE]
    return [[0.0, round(hist.get_min_value() / 1e3, 4)], *points]


def describe_plan(plan: LoadPlan) -> dict[str, Any]:
    """The plan as data, without headers, since they may hold a key."""
    work, arrivals = plan.workload, plan.arrivals
    shape: dict[str, Any] = {"kind": arrivals.kind}
    if plan.closed_users:
        shape = {"kind": "closed loop", "users": plan.closed_users, "think_s": plan.closed_think_s}
    elif arrivals.kind == "trace":
        shape |= {"file": work.trace_file.name if work.trace_file else "", "speed": plan.speed}
    else:
        shape["rate_per_s"] = arrivals.rate
        if arrivals.rate_to:
            shape["rate_to_per_s"] = arrivals.rate_to
    return {
        "arrivals": shape,
        "duration_s": plan.duration_s,
        "max_requests": plan.max_requests,
        "warmup_s": plan.warmup_s,
        "processes": plan.processes,
        "timeout_s": plan.timeout_s,
        "max_in_flight": plan.max_in_flight,
        "seed": plan.seed,
        "workload": {
            "model": work.model,
            "stream": work.stream,
            "text": "file"
            if work.messages_file
            else "trace"
            if work.trace_file
            else "fixed"
            if work.prompt
            else "synthetic",
            "file": work.messages_file.name if work.messages_file else "",
            "tokens_in": str(work.tokens_in),
            "tokens_out": str(work.tokens_out),
            "conversations": work.conversations,
            "repeat_share": work.repeat_share,
            "paraphrase_share": work.paraphrase_share,
            "prefix_tokens": work.prefix_tokens,
            "prefix_count": work.prefix_count,
            "token_scale": work.token_scale,
        },
    }


def _rate(count: float, seconds: float) -> float:
    return round(count / seconds, 3) if seconds else 0.0


def _shares(counter: Any) -> dict[str, dict[str, float]]:
    total = sum(counter.values())
    named = {name or "(none said)": n for name, n in counter.most_common()}
    return {name: {"answers": n, "share": round(n / total, 6)} for name, n in named.items()}


def _goodput(totals: Totals, measured_s: float) -> dict[str, Any] | None:
    if totals.slo is None:
        return None
    return {
        "slo": str(totals.slo),
        "good": totals.good,
        "share": round(totals.good / totals.done, 6) if totals.done else 0.0,
        "per_s": _rate(totals.good, measured_s),
    }


def _cost(totals: Totals) -> dict[str, float] | None:
    total = totals.cost_usd() if totals.prices else None
    if total is None:
        return None
    return {
        "total": round(total, 6),
        "per_1000_answers": round(1000 * total / totals.ok, 6) if totals.ok else 0.0,
    }


def _generator(plan: LoadPlan, totals: Totals, max_lateness_ms: float) -> dict[str, Any]:
    late, lag = percentiles_ms(totals.hist["late"]), percentiles_ms(totals.hist["lag"])
    reasons = []
    if late and late["p99"] > max_lateness_ms:
        reasons.append(
            f"requests left {late['p99']:.2f} ms after they were due at p99 (limit {max_lateness_ms:g} ms)"
        )
    if lag and lag["p99"] > max_lateness_ms:
        reasons.append(f"its event loop was {lag['p99']:.2f} ms behind at p99 (limit {max_lateness_ms:g} ms)")
    if totals.done and totals.held / totals.done > HELD_SHARE_LIMIT:
        reasons.append(
            f"{totals.held} requests waited for the cap of {plan.max_in_flight} in flight: raise --max-in-flight"
        )
    return {
        "ok": not reasons,
        "reasons": reasons,
        "max_lateness_ms": max_lateness_ms,
        "lateness_ms": late,
        "loop_lag_ms": lag,
        "held_back": totals.held,
        "connections_opened": sum(batch.connects for batch in totals.last.values()),
        "stale_connections_retried": sum(batch.stale_retries for batch in totals.last.values()),
        "cpu_s": [round(totals.last[k].cpu_s, 3) for k in sorted(totals.last)],
    }


def _timeline(totals: Totals) -> dict[str, Any]:
    line = totals.timeline
    numbers = range(max(line.slices) + 1) if line.slices else range(0)
    middles = np.sqrt(HEAT_EDGES_S[1:] * HEAT_EDGES_S[:-1]) * 1e3
    table: dict[str, Any] = {
        name: [] for name in ("due", "ok", "failed", "chunks", "in_flight", "p50", "p90", "p99", "heat")
    }
    for number in numbers:
        found = line.at((number + 0.5) * line.width_s)
        for name in ("due", "ok", "failed", "chunks", "in_flight"):
            table[name].append(found[name])
        heat = found["heat"]
        sums = heat.cumsum()
        for p in (50, 90, 99):
            where = int(np.searchsorted(sums, sums[-1] * p / 100)) if sums[-1] else -1
            table[f"p{p}"].append(round(float(middles[where]), 4) if where >= 0 else None)
        table["heat"].append({str(k): int(heat[k]) for k in np.flatnonzero(heat)})
    return {
        "width_s": line.width_s,
        "heat_edges_ms": [round(float(e) * 1e3, 6) for e in HEAT_EDGES_S],
        **table,
    }
