"""Compares endpoints in short alternating rounds, A B B A A B ..., so that drift of the machine affects all alike.

Within a block every endpoint gets the same requests at the same times. A round in which the generator was late does not
measure the endpoint: its block is repeated, and if that does not help there is no report.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from loadtest.bootstrap import ratio_of
from loadtest.errors import GeneratorTooSlow
from loadtest.plan import LoadPlan, Target

RunRound = Callable[[LoadPlan], Awaitable[dict[str, Any]]]

METRICS = (
    ("latency p50", "latency_ms", "p50"),
    ("latency p99", "latency_ms", "p99"),
    ("first token p50", "ttft_ms", "p50"),
    ("first token p99", "ttft_ms", "p99"),
    ("per token p50", "tpot_ms", "p50"),
    ("gap p99", "gap_ms", "p99"),
)
_REPEATS = 2


async def compare(
    plan: LoadPlan,
    targets: Sequence[Target],
    blocks: int,
    run_round: RunRound,
    report_line: Callable[[str], None],
) -> dict[str, Any]:
    """Runs `blocks` blocks and returns the comparison with the first target.

    Raises GeneratorTooSlow if the generator was late in a block and its two repeats. An interrupted round ends the
    comparison; the blocks completed by then are reported.
    """
    rounds: list[list[dict[str, Any]]] = []  # by block, then by target
    interrupted = False
    for block in range(blocks):
        found, late = await _block(plan, targets, block, run_round, report_line)
        for repeat in range(_REPEATS):
            if not late or found is None:
                break
            report_line(
                f"block {block + 1}: the generator was late ({late[0]}); repeating it ({repeat + 1} of {_REPEATS})"
            )
            found, late = await _block(plan, targets, block, run_round, report_line)
        if found is None:
            interrupted = True
            break
        if late:
            raise GeneratorTooSlow(
                f"no comparison: the load generator was the bottleneck in block {block + 1} and its {_REPEATS} repeats:"
                f" {'; '.join(late)}. Lower the rate, add --processes, or free the machine"
            )
        rounds.append(found)
    return summarise_rounds(plan, targets, rounds, interrupted)


async def _block(
    plan: LoadPlan,
    targets: Sequence[Target],
    block: int,
    run_round: RunRound,
    report_line: Callable[[str], None],
) -> tuple[list[dict[str, Any]] | None, list[str]]:
    """One round of each target, forwards in even blocks and backwards in odd ones; None if it was interrupted."""
    order = range(len(targets)) if block % 2 == 0 else reversed(range(len(targets)))
    found: list[dict[str, Any]] = [{} for _ in targets]
    late: list[str] = []
    for place in order:
        report = await run_round(replace(plan, target=targets[place], seed=plan.seed + block))
        if report["interrupted"]:
            return None, []
        found[place] = report
        late += [f"{targets[place].label}: {reason}" for reason in report["generator"]["reasons"]]
        shown = report["latency_ms"] or {"p50": float("nan"), "p99": float("nan")}
        report_line(
            f"block {block + 1}  {targets[place].label:<16} p50 {shown['p50']:9.2f} ms  p99 {shown['p99']:9.2f} ms"
            f"  ok {report['requests']['ok']}  failed {report['requests']['failed']}"
        )
    return found, late


def summarise_rounds(
    plan: LoadPlan, targets: Sequence[Target], rounds: Sequence[Sequence[dict[str, Any]]], interrupted: bool
) -> dict[str, Any]:
    """The figures by target and metric, with ratios to the first target."""
    results: list[dict[str, Any]] = []
    for place, target in enumerate(targets):
        own = [block[place] for block in rounds]
        requests = sum(report["requests"]["measured"] for report in own)
        failed = sum(report["requests"]["failed"] for report in own)
        figures: dict[str, Any] = {}
        for label, key, which in METRICS:
            values = _series(own, key, which)
            if values is None:
                continue
            ratio = ratio_of(_series([b[0] for b in rounds], key, which) or [], values) if place else None
            figures[label] = {
                "median_ms": round(sorted(values)[len(values) // 2], 4) if values else None,
                "rounds_ms": values,
                "ratio": round(ratio.value, 4) if ratio else None,
                "ratio_95": [round(ratio.low, 4), round(ratio.high, 4)]
                if ratio and ratio.low is not None and ratio.high is not None
                else None,
                "differs": ratio.differs if ratio else False,
            }
        costs = [report["cost_usd"]["per_1000_answers"] for report in own if report["cost_usd"]]
        results.append(
            {
                "name": target.label,
                "base_url": target.base_url,
                "requests": requests,
                "failed_share": round(failed / requests, 6) if requests else 0.0,
                "ok_per_s": round(sum(report["rates"]["ok_per_s"] for report in own) / max(1, len(own)), 3),
                "cost_usd_per_1000": round(sum(costs) / len(costs), 6) if costs else None,
                "figures": figures,
            }
        )
    lateness = [
        report["generator"]["lateness_ms"]["p99"]
        for b in rounds
        for report in b
        if report["requests"]["measured"]
    ]
    return {
        "format": 1,
        "baseline": targets[0].label,
        "blocks": len(rounds),
        "round_s": plan.duration_s,
        "interrupted": interrupted,
        "worst_lateness_p99_ms": max(lateness, default=None),
        "targets": results,
    }


def _series(reports: Sequence[dict[str, Any]], key: str, which: str) -> list[float] | None:
    if not reports or any(not report[key] for report in reports):
        return None
    return [report[key][which] for report in reports]
