"""Finds the highest rate at which an endpoint still meets an SLO, or the frontier of quality, latency and cost of a dial.

The rate is doubled until the SLO is missed and then bisected, on a log scale. A probe in which the generator was late says
nothing about the endpoint: the search then stops and says so.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from loadtest.plan import LoadPlan

Probe = Callable[[LoadPlan], Awaitable[dict[str, Any]]]


@dataclass(frozen=True)
class Dial:
    """A header or a field of the body by which a request trades quality for speed or money."""

    place: str
    name: str
    values: tuple[str, ...]

    def set(self, plan: LoadPlan, value: str) -> LoadPlan:
        """The plan with the dial set to a value."""
        if self.place == "header":
            others = tuple(pair for pair in plan.target.headers if pair[0].lower() != self.name.lower())
            return replace(plan, target=replace(plan.target, headers=(*others, (self.name, value))))
        body = orjson.loads(plan.workload.extra_body or "{}")
        try:
            body[self.name] = orjson.loads(value)
        except ValueError:
            body[self.name] = value
        return replace(plan, workload=replace(plan.workload, extra_body=orjson.dumps(body).decode()))


def parse_dial(text: str) -> Dial:
    """Reads `header:NAME=v1,v2,...` or `body:FIELD=v1,v2,...`. Raises ValueError naming what would be right."""
    place, colon, rest = text.partition(":")
    name, equals, values = rest.partition("=")
    found = tuple(value.strip() for value in values.split(",") if value.strip())
    if place not in ("header", "body") or not colon or not name.strip() or not equals or not found:
        raise ValueError(f"{text!r} is not a dial: write header:NAME=v1,v2,... or body:FIELD=v1,v2,...")
    return Dial(place, name.strip(), found)


async def find_knee(
    plan: LoadPlan,
    probe: Probe,
    *,
    start_rate: float,
    max_rate: float,
    need_share: float,
    precision: float,
    report_line: Callable[[str], None],
) -> dict[str, Any]:
    """Searches from `start_rate` up to `max_rate` requests/s.

    A probe passes if at least `need_share` of its requests meet the SLO. Returns the knee (None: not even the lowest rate
    passed), whether the search was cut short and why, and every probe.
    """
    probes: list[dict[str, Any]] = []
    low, high, why = 0.0, math.inf, ""
    rate = start_rate
    while True:
        report = await probe(
            replace(plan, arrivals=replace(plan.arrivals, rate=rate), seed=plan.seed + len(probes))
        )
        good = report["goodput"] or {"share": 0.0, "slo": ""}
        passed = good["share"] >= need_share and report["requests"]["measured"] > 0
        probes.append(_line(report, rate=rate, met_share=good["share"], passed=passed))
        report_line(
            f"{rate:9.1f}/s  met {good['share']:7.2%}  p50 {_ms(report, 'p50')}  p99 {_ms(report, 'p99')}"
            f"  {'passes' if passed else 'FAILS'}"
        )
        if report["interrupted"]:
            why = "interrupted"
            break
        if not passed and not report["generator"]["ok"]:
            why = (
                f"the generator gave out before the endpoint did: {'; '.join(report['generator']['reasons'])}"
            )
            break
        low, high = (max(low, rate), high) if passed else (low, min(high, rate))
        if passed and rate >= max_rate:
            why = f"the endpoint still passed at the highest rate asked for, {max_rate:g}/s"
            break
        if high == math.inf:
            rate = min(max_rate, rate * 2)
        elif low == 0.0:
            if high <= start_rate / 64:
                break
            rate = high / 4
        elif high / low <= 1 + precision:
            break
        else:
            rate = math.sqrt(low * high)
    return {"format": 1, "knee_per_s": round(low, 3) or None, "stopped_because": why, "probes": probes}


async def walk_dial(
    plan: LoadPlan, dial: Dial, probe: Probe, report_line: Callable[[str], None]
) -> dict[str, Any]:
    """Runs the plan once per value of the dial, at the plan's rate, and marks the values on the frontier."""
    points: list[dict[str, Any]] = []
    for value in dial.values:
        report = await probe(dial.set(plan, value))
        points.append(_line(report, value=value))
        cost = points[-1]["cost_usd_per_1000"]
        report_line(
            f"{dial.name} = {value:<8} quality {_or_dash(points[-1]['quality'])}  p50 {_ms(report, 'p50')}"
            f"  p99 {_ms(report, 'p99')}  cost/1000 {_or_dash(cost)}"
        )
        if report["interrupted"]:
            break
    mark_frontier(points)
    return {"format": 1, "dial": f"{dial.place}:{dial.name}", "points": points}


def mark_frontier(points: Sequence[dict[str, Any]]) -> None:
    """Sets `on_frontier`: no other point is at least as good in quality, latency and cost and better in one of them."""

    def losses(point: dict[str, Any]) -> tuple[float, float, float]:
        return (-(point["quality"] or 0.0), point["p50_ms"] or math.inf, point["cost_usd_per_1000"] or 0.0)

    for point in points:
        own = losses(point)
        point["on_frontier"] = not any(
            all(a <= b for a, b in zip(losses(other), own, strict=True)) and losses(other) != own
            for other in points
        )


def _line(report: dict[str, Any], **more: Any) -> dict[str, Any]:
    latency, ttft = report["latency_ms"] or {}, report["ttft_ms"] or {}
    return {
        **more,
        "offered_per_s": report["rates"]["offered_per_s"],
        "ok_per_s": report["rates"]["ok_per_s"],
        "failed_share": report["rates"]["failed_share"],
        "p50_ms": latency.get("p50"),
        "p99_ms": latency.get("p99"),
        "ttft_p50_ms": ttft.get("p50"),
        "ttft_p99_ms": ttft.get("p99"),
        "quality": report["quality"]["mean"] if report["quality"] else None,
        "cost_usd_per_1000": report["cost_usd"]["per_1000_answers"] if report["cost_usd"] else None,
        "generator_ok": report["generator"]["ok"],
        "lateness_p99_ms": (report["generator"]["lateness_ms"] or {}).get("p99"),
    }


def _ms(report: dict[str, Any], which: str) -> str:
    return f"{report['latency_ms'][which]:9.2f} ms" if report["latency_ms"] else "        - ms"


def _or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
