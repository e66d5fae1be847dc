"""What many applications came to, as one report."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, quantiles
from typing import Any

from loadtest.applications.playing import Played


def summary(played: Sequence[Played], *, took_s: float) -> dict[str, Any]:
    """Latencies in seconds, requests, tokens, failures by reason; a digest of all results, to compare two runs by."""
    good = [one for one in played if not one.error]
    return {
        "applications": len(played),
        "failed": len(played) - len(good),
        "errors": dict(Counter(one.error for one in played if one.error)),
        "took_s": took_s,
        "latency_s": _latencies([one.latency_s for one in good]),
        "requests": sum(one.requests for one in played),
        "calls": sum(one.calls for one in played),
        "prompt_tokens": sum(one.prompt_tokens for one in played),
        "completion_tokens": sum(one.completion_tokens for one in played),
        "results_digest": hashlib.blake2b(
            "\0".join(one.result for one in played).encode(), digest_size=8
        ).hexdigest(),
    }


def _latencies(latencies_s: Sequence[float]) -> dict[str, float]:
    if not latencies_s:
        return {}
    cuts = (
        quantiles(latencies_s, n=100, method="inclusive") if len(latencies_s) > 1 else [latencies_s[0]] * 99
    )
    return {"mean": fmean(latencies_s), "p50": cuts[49], "p95": cuts[94], "max": max(latencies_s)}


def told(report: dict[str, Any]) -> str:
    """The report for people."""
    latency = report["latency_s"]
    lines = [
        f"{report['app']}, carried out by the {report['orchestrate']}, {report['rtt_ms']:g} ms away:"
        f" {report['applications']} applications in {report['took_s']:.1f} s, {report['failed']} failed"
    ]
    if latency:
        lines.append(
            "end to end, s: " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in latency.items())
        )
    lines.append(
        f"{report['requests']} requests of the client for {report['calls']} calls;"
        f" {report['prompt_tokens']} prompt tokens, {report['completion_tokens']} completion tokens;"
        f" results {report['results_digest']}"
    )
    lines += [f"{count} x {why}" for why, count in report["errors"].items()]
    return "\n".join(lines)
