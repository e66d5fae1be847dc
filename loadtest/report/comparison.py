"""A comparison as a table for the terminal, and as a page with every round in a chart."""

from __future__ import annotations

from html import escape
from typing import Any

from rich.console import Console
from rich.table import Table

from loadtest.report.charts import layout
from loadtest.report.html import document
from loadtest.report.text import figure


def rows_of_comparison(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """(column titles, lines) of the comparison, as text."""
    titles = ["", *(target["name"] for target in result["targets"])]
    labels = list(result["targets"][0]["figures"])
    lines = []
    for label in labels:
        line = [f"{label}, ms"]
        for target in result["targets"]:
            found = target["figures"].get(label)
            line.append(_cell(found) if found else "-")
        lines.append(line)
    lines.append(["answered/s", *(f"{target['ok_per_s']:.1f}" for target in result["targets"])])
    lines.append(["failed", *(f"{target['failed_share']:.2%}" for target in result["targets"])])
    if any(target["cost_usd_per_1000"] is not None for target in result["targets"]):
        costs = [target["cost_usd_per_1000"] for target in result["targets"]]
        lines.append(["USD per 1000", *("-" if cost is None else f"{cost:.4f}" for cost in costs)])
    return titles, lines


def _cell(found: dict[str, Any]) -> str:
    text = figure(found["median_ms"])
    if found["ratio"] is None:
        return text
    if found["ratio_95"] is None:
        return f"{text}  x{found['ratio']:.3g}"
    low, high = found["ratio_95"]
    return f"{text}  x{found['ratio']:.3g} [{low:.3g}, {high:.3g}]{'' if found['differs'] else ' ='}"


def print_comparison(result: dict[str, Any], console: Console) -> None:
    """Prints the table and how to read it."""
    if not result["blocks"]:
        console.print("no block was completed: nothing to compare", style="yellow")
        return
    titles, lines = rows_of_comparison(result)
    table = Table(
        *titles, title=f"{result['blocks']} blocks of {result['round_s']:g} s rounds", title_justify="left"
    )
    for line in lines:
        table.add_row(*line)
    console.print(table)
    console.print(explanation(result), highlight=False, markup=False)


def explanation(result: dict[str, Any]) -> str:
    """How to read the cells."""
    lateness_ms = result["worst_lateness_p99_ms"]
    return (
        f"Median over rounds; x: times {result['baseline']}'s, geometric mean over blocks, with its 95 % bootstrap"
        " interval; =: no difference shown."
        + (f" Generator lateness p99 at worst {lateness_ms:.2f} ms." if lateness_ms is not None else "")
    )


def comparison_page(result: dict[str, Any]) -> str:
    """The comparison as one self-contained page."""
    import plotly.graph_objects as go
    from plotly.offline import get_plotlyjs

    titles, lines = rows_of_comparison(result)
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    parts = [
        f"<h1>Comparison with {escape(result['baseline'])}</h1>",
        f"<table><tr>{head}</tr>{body}</table><p class=note>{escape(explanation(result))}</p>",
    ]
    for label in result["targets"][0]["figures"]:
        chart = go.Figure()
        for target in result["targets"]:
            values = target["figures"].get(label, {}).get("rounds_ms") or []
            blocks = list(range(1, len(values) + 1))
            chart.add_scatter(x=blocks, y=values, name=escape(target["name"]), mode="lines+markers")
        layout(chart, "block", "ms", 300, yaxis={"type": "log"})
        parts.append(f"<h2>{escape(label)}, every round</h2>")
        parts.append(chart.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False}))
    return document(f"Comparison with {result['baseline']}", "".join(parts), get_plotlyjs())
