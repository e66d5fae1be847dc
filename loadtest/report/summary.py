"""The report as plain data: what every other form of it is made from."""

from __future__ import annotations

from typing import Any

import numpy as np

from loadtest.plan import LoadPlan
from loadtest.tally import HEAT_EDGES_S, Tally

PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)
_CURVE = (0.1, 0.5, *range(1, 100), 99.5, 99.9, 99.99, 100.0)
HELD_SHARE_LIMIT = 0.001


def summarise(
    plan: LoadPlan,
    tally: Tally,
    *,
    started_at: str,
    interrupted: bool = False,
    failure: str = "",
    max_lateness_ms: float = 2.0,
) -> dict[str, Any]:
    """The whole report. Times are in ms, rates per s, costs in USD; percentile keys are such as `p99.9`."""
    measured_s = (
        max(1e-9, min(plan.duration_s, tally.last_due_s + 1e-9) - plan.warmup_s) if tally.done else 0.0
    )
    if tally.done and not interrupted and plan.arrivals.kind != "trace" and not plan.max_requests:
        measured_s = plan.duration_s - plan.warmup_s
    failed = tally.done - tally.ok
    answered_s = max(measured_s, tally.last_end_s - plan.warmup_s) if tally.done else 0.0
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
            "measured": tally.done,
            "ok": tally.ok,
            "failed": failed,
            "timed_out": sum(n for name, n in tally.outcomes.items() if name.startswith("timeout")),
            "unfinished": sum(n for name, n in tally.outcomes.items() if name.startswith("stopped")),
            "unfinished_longest_ms": round(tally.unfinished_longest_s * 1e3, 3),
            "warm_up": tally.warm_requests,
        },
        "rates": {
            "measured_s": round(measured_s, 3),
            "offered_per_s": _rate(tally.done, measured_s),
            "ok_per_s": _rate(tally.ok, answered_s),
            "chunks_per_s": _rate(tally.chunks, answered_s),
            "tokens_out_per_s": _rate(tally.tokens_out, answered_s),
            "failed_share": round(failed / tally.done, 6) if tally.done else 0.0,
        },
        **{
            f"{metric}_ms": percentiles_ms(tally.hist[metric])
            for metric in ("latency", "ttft", "tpot", "gap")
        },
        "distribution": {m: distribution_ms(tally.hist[m]) for m in ("latency", "ttft", "tpot", "gap")},
        "coalesced_share": round(tally.coalesced / max(1, tally.hist["gap"].total_count), 6),
        "goodput": _goodput(tally, measured_s),
        "outcomes": dict(tally.outcomes.most_common()),
        "engines": _shares(tally.engines),
        "cache": _shares(tally.caches),
        "models": {
            name: {"answers": int(n), "tokens_in": int(tokens_in), "tokens_out": int(tokens_out)}
            for name, (n, tokens_in, tokens_out) in tally.model_tokens.items()
        },
        "cost_usd": _cost(tally),
        "quality": (
            {"mean": round(tally.quality_sum / tally.quality_count, 6), "judged": tally.quality_count}
            if tally.quality_count
            else None
        ),
        "generator": _generator(plan, tally, max_lateness_ms),
        "timeline": _timeline(tally),
    }


def percentiles_ms(hist: Any) -> dict[str, float] | None:
    """A histogram of microseconds as percentiles in ms; None where it is empty."""
    if not hist.total_count:
        return None
    found = {f"p{p:g}": round(hist.get_value_at_percentile(p) / 1e3, 4) for p in PERCENTILES}
    found["min"] = round(hist.get_min_value() / 1e3, 4)
    found["mean"] = round(hist.get_mean_value() / 1e3, 4)
    found["max"] = round(hist.get_max_value() / 1e3, 4)
    found["count"] = int(hist.total_count)
    return found


def distribution_ms(hist: Any) -> list[list[float]]:
    """A curve of [share, ms] points, finer where it matters; empty for an empty histogram."""
    if not hist.total_count:
        return []
    points = [[p / 100, round(hist.get_value_at_percentile(p) / 1e3, 4)] for p in _CURVE]
    return [[0.0, round(hist.get_min_value() / 1e3, 4)], *points]


def describe_plan(plan: LoadPlan) -> dict[str, Any]:
    """What was asked for, without headers: they may hold a key."""
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


def _goodput(tally: Tally, measured_s: float) -> dict[str, Any] | None:
    if tally.slo is None:
        return None
    return {
        "slo": str(tally.slo),
        "good": tally.good,
        "share": round(tally.good / tally.done, 6) if tally.done else 0.0,
        "per_s": _rate(tally.good, measured_s),
    }


def _cost(tally: Tally) -> dict[str, float] | None:
    total = tally.cost_usd() if tally.prices else None
    if total is None:
        return None
    return {
        "total": round(total, 6),
        "per_1000_answers": round(1000 * total / tally.ok, 6) if tally.ok else 0.0,
    }


def _generator(plan: LoadPlan, tally: Tally, max_lateness_ms: float) -> dict[str, Any]:
    late, lag = percentiles_ms(tally.hist["late"]), percentiles_ms(tally.hist["lag"])
    reasons = []
    if late and late["p99"] > max_lateness_ms:
        reasons.append(
            f"requests left {late['p99']:.2f} ms after they were due at p99 (limit {max_lateness_ms:g} ms)"
        )
    if lag and lag["p99"] > max_lateness_ms:
        reasons.append(f"its event loop was {lag['p99']:.2f} ms behind at p99 (limit {max_lateness_ms:g} ms)")
    if tally.done and tally.held / tally.done > HELD_SHARE_LIMIT:
        reasons.append(
            f"{tally.held} requests waited for the cap of {plan.max_in_flight} in flight: raise --max-in-flight"
        )
    return {
        "ok": not reasons,
        "reasons": reasons,
        "max_lateness_ms": max_lateness_ms,
        "lateness_ms": late,
        "loop_lag_ms": lag,
        "held_back": tally.held,
        "connections_opened": sum(batch.connects for batch in tally.last.values()),
        "stale_connections_retried": sum(batch.stale_retries for batch in tally.last.values()),
        "cpu_s": [round(tally.last[k].cpu_s, 3) for k in sorted(tally.last)],
    }


def _timeline(tally: Tally) -> dict[str, Any]:
    line = tally.timeline
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
