"""The comparison of peers, for a terminal: what each adds at a fixed rate, and what a request costs it in CPU."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from loadtest.report.text import figure


def print_peers(result: dict[str, Any], console: Console) -> None:
    """Print the table, who was left out, and how to read it."""
    table = Table(
        "",
        "p50 ms",
        "added p50",
        "p99 ms",
        "added p99",
        "first token p50",
        "failed",
        "CPU us/request",
        "max answered/s",
    )
    for line in result["peers"]:
        ttft = line["ttft_p50_ms"]
        table.add_row(
            line["name"],
            figure(line["p50_ms"]),
            _signed(line["added_p50_ms"]),
            figure(line["p99_ms"]),
            _signed(line["added_p99_ms"]),
            "-" if ttft is None else figure(ttft),
            f"{line['failed_share']:.2%}",
            "-" if line["cpu_us_per_request"] is None else f"{line['cpu_us_per_request']:.0f}",
            "-" if line["max_ok_per_s"] is None else f"{line['max_ok_per_s']:.0f}",
        )
    console.print(table)
    console.print(
        f"at {result['rate_per_s']:g} requests/s, {'streamed' if result['stream'] else 'not streamed'}, medians over"
        f" {result['blocks']} rounds of {result['round_s']:g} s, all in front of the same mock upstream; 'max' is a closed"
        f" loop of {result['closed_users']} users. One machine ran generator, peer and mock: compare, do not quote.",
        highlight=False,
        markup=False,
    )
    for name, why in result["left_out"].items():
        console.print(f"left out: {name}: {why}", highlight=False, markup=False)


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"
