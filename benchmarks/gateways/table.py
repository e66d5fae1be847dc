"""The comparison of peers as text: what each adds at a fixed rate, and what a request costs it in CPU."""

from __future__ import annotations

from typing import Any

from benchmarks.tables import markdown
from loadtest.report.text import figure


def text(result: dict[str, Any]) -> str:
    """The table, how to read it, and who was left out."""
    head = ["", "p50 ms", "added p50", "p99 ms", "added p99", "first token p50", "failed"]
    head += ["CPU us/request", "max answered/s"]
    rows = [
        [
            line["name"],
            figure(line["p50_ms"]),
            _shown(line["added_p50_ms"], "+.2f"),
            figure(line["p99_ms"]),
            _shown(line["added_p99_ms"], "+.2f"),
            "-" if line["ttft_p50_ms"] is None else figure(line["ttft_p50_ms"]),
            f"{line['failed_share']:.2%}",
            _shown(line["cpu_us_per_request"], ".0f"),
            _shown(line["max_ok_per_s"], ".0f"),
        ]
        for line in result["peers"]
    ]
    said = (
        f"at {result['rate_per_s']:g} requests/s, {'streamed' if result['stream'] else 'not streamed'}, medians over"
        f" {result['blocks']} rounds of {result['round_s']:g} s, all in front of the same mock upstream; 'max' is a closed"
        f" loop of {result['closed_users']} users. One machine ran generator, peer and mock: compare, do not quote."
    )
    absent = [f"left out: {name}: {why}" for name, why in result["left_out"].items()]
    return "\n".join([markdown(head, rows), said, *absent])


def _shown(value: float | None, how: str) -> str:
    return "-" if value is None else f"{value:{how}}"
