"""A sweep as a table with its verdict for the terminal, and as a page with the curve."""

from __future__ import annotations

from html import escape
from typing import Any

from rich.console import Console
from rich.table import Table

from loadtest.report.charts import layout
from loadtest.report.html import document

_KNEE_COLUMNS = (
    "rate",
    "met_share",
    "p50_ms",
    "p99_ms",
    "ttft_p50_ms",
    "ttft_p99_ms",
    "failed_share",
    "lateness_p99_ms",
)
_DIAL_COLUMNS = ("value", "quality", "p50_ms", "p99_ms", "cost_usd_per_1000", "failed_share", "on_frontier")


def _lines(result: dict[str, Any]) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    if "points" in result:
        return _DIAL_COLUMNS, result["points"]
    return _KNEE_COLUMNS, sorted(result["probes"], key=lambda probe: float(probe["rate"]))


def verdict(result: dict[str, Any]) -> str:
    """The finding in one sentence."""
    if "points" in result:
        kept = [point["value"] for point in result["points"] if point["on_frontier"]]
        return f"{result['target']}: settings of {result['dial']} that no other beats in everything: {', '.join(kept)}"
    stopped = f" ({result['stopped_because']})" if result["stopped_because"] else ""
    if result["knee_per_s"] is None:
        return f"{result['target']}: no rate that was tried meets {result['slo']}{stopped}"
    return f"{result['target']}: meets {result['slo']} up to {result['knee_per_s']:.1f} requests/s{stopped}"


def print_sweep(result: dict[str, Any], console: Console) -> None:
    """Prints the table and the verdict."""
    columns, lines = _lines(result)
    table = Table(*columns)
    for line in lines:
        table.add_row(*(_cell(line.get(column)) for column in columns))
    console.print(table)
    console.print(verdict(result), highlight=False, markup=False)


def sweep_page(result: dict[str, Any]) -> str:
    """The sweep as one self-contained page."""
    import plotly.graph_objects as go
    from plotly.offline import get_plotlyjs

    columns, lines = _lines(result)
    chart = go.Figure()
    if "points" in result:
        texts = [escape(str(line["value"])) for line in lines]
        quality = [line["quality"] for line in lines]
        chart.add_scatter(
            x=[line["p50_ms"] for line in lines], y=quality, text=texts, mode="markers+text", name="setting"
        )
        layout(chart, "latency p50, ms", "quality", 420)
    else:
        rates = [line["rate"] for line in lines]
        for key, name in (("p50_ms", "p50"), ("p99_ms", "p99")):
            chart.add_scatter(x=rates, y=[line[key] for line in lines], name=name, mode="lines+markers")
        if result["knee_per_s"]:
            # A trace, not a marked line: plotly misplaces the text of those on logarithmic axes.
            heights = [line["p50_ms"] for line in lines] + [line["p99_ms"] for line in lines]
            known = [height for height in heights if height]
            knee = [result["knee_per_s"]] * 2
            chart.add_scatter(
                x=knee, y=[min(known), max(known)], name="knee", mode="lines", line={"dash": "dash"}
            )
        layout(chart, "requests/s", "latency, ms", 420, yaxis={"type": "log"}, xaxis={"type": "log"})
    head = "".join(f"<th>{column}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(line.get(column)))}</td>" for column in columns) + "</tr>"
        for line in lines
    )
    figure = chart.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False})
    text = f"<h1>Sweep of {escape(result['target'])}</h1><p>{escape(verdict(result))}</p>"
    return document(
        f"Sweep of {result['target']}", f"{text}{figure}<table><tr>{head}</tr>{body}</table>", get_plotlyjs()
    )


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
