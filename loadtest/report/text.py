"""The report for a terminal: a table with rich, and plain lines elsewhere."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

_ROWS = (("latency", "latency_ms"), ("first token", "ttft_ms"), ("per token", "tpot_ms"), ("gap", "gap_ms"))
_COLUMNS = ("p50", "p75", "p90", "p95", "p99", "p99.9", "max")


def make_console(stderr: bool = False) -> Console:
    """A console for people; if the output is no terminal, its lines are wide enough for the tables."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=150)


def print_report(report: dict[str, Any], console: Console) -> None:
    """Prints the whole report."""
    requests, rates = report["requests"], report["rates"]
    title = f"{report['target']['name']}  {report['target']['base_url']}"
    console.print(f"\n{title}", highlight=False, markup=False)
    if report["interrupted"]:
        console.print("INTERRUPTED: this covers what was sent until then", style="yellow")
    if report["failure"]:
        console.print(f"INCOMPLETE: {report['failure']}", style="red", markup=False)
    console.print(
        f"offered {rates['offered_per_s']:.1f}/s for {rates['measured_s']:.1f} s; answered {requests['ok']} of"
        f" {requests['measured']} ({rates['ok_per_s']:.1f}/s); failed {requests['failed']}"
        f" ({rates['failed_share']:.2%}); warm-up {requests['warm_up']}",
        highlight=False,
    )
    if report["gap_ms"]:
        console.print(
            f"streamed {rates['chunks_per_s']:.0f} chunks/s; {report['coalesced_share']:.1%} came together with another",
            highlight=False,
        )
    table = Table("ms, from when it was due", *_COLUMNS)
    for label, key in _ROWS:
        if found := report[key]:
            table.add_row(label, *(figure(found[column]) for column in _COLUMNS))
    if table.row_count:
        console.print(table)
    for line in detail_lines(report):
        console.print(line, highlight=False, markup=False)
    print_generator(report["generator"], console)


def detail_lines(report: dict[str, Any]) -> list[str]:
    """One line per further finding: goodput, failures, engines, cache, cost, quality."""
    lines = []
    if good := report["goodput"]:
        lines.append(f"goodput {good['per_s']:.1f}/s ({good['share']:.2%} met {good['slo']})")
    failures = {name: n for name, n in report["outcomes"].items() if name != "ok"}
    if failures:
        lines.append("failures: " + ", ".join(f"{name}: {n}" for name, n in failures.items()))
    if report["requests"]["unfinished"]:
        longest_ms = report["requests"]["unfinished_longest_ms"]
        lines.append(
            f"unfinished at the stop: {report['requests']['unfinished']}, the longest after {longest_ms:.0f} ms"
        )
    for key, label in (("engines", "engine"), ("cache", "cache")):
        if set(report[key]) - {"(none said)"}:
            lines.append(
                f"{label}: " + ", ".join(f"{name} {v['share']:.1%}" for name, v in report[key].items())
            )
    if cost := report["cost_usd"]:
        lines.append(f"cost: ${cost['total']:.4f}, ${cost['per_1000_answers']:.4f} per 1000 answers")
    if quality := report["quality"]:
        lines.append(f"quality: {quality['mean']:.3f} over {quality['judged']} answers")
    return lines


def print_generator(generator: dict[str, Any], console: Console) -> None:
    """Prints whether the generator was on time."""
    late, lag = generator["lateness_ms"], generator["loop_lag_ms"]
    if late and lag:
        console.print(
            f"generator: late p50 {late['p50']:.2f} p99 {late['p99']:.2f} max {late['max']:.1f} ms;"
            f" loop lag p99 {lag['p99']:.2f} ms;"
            f" cpu {sum(generator['cpu_s']):.1f} s in {len(generator['cpu_s'])} process(es);"
            f" {generator['connections_opened']} connections",
            highlight=False,
        )
    if generator["ok"]:
        console.print("the generator kept its schedule", style="green")
    for reason in generator["reasons"]:
        console.print(f"THE GENERATOR WAS NOT ON TIME: {reason}", style="red", markup=False)


def figure(value: float) -> str:
    """Milliseconds with about three significant digits."""
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 100 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"
