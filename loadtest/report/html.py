"""The report as one self-contained HTML page: plotly's script is inlined, nothing is fetched.

Everything shown as text is escaped: outcomes, engines and model names come from the endpoint under test.
"""

from __future__ import annotations

from html import escape
from typing import Any

from loadtest.report.charts import charts
from loadtest.report.text import detail_lines, figure

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem;color:#1c2430;background:#fff}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin:2rem 0 .3rem}
table{border-collapse:collapse;margin:.5rem 0}td,th{padding:.25rem .8rem;border-bottom:1px solid #dde3ea;text-align:right}
td:first-child,th:first-child{text-align:left}p.note{color:#5a6675;margin:.2rem 0 .6rem}
.good{background:#e7f6ec;border-left:4px solid #2c9a4b}.bad{background:#fdecea;border-left:4px solid #c8321f}
.box{padding:.5rem .8rem;margin:.8rem 0}code{background:#f2f4f7;padding:0 .25rem}
"""
_COLUMNS = ("p50", "p75", "p90", "p95", "p99", "p99.9", "max", "mean", "count")
_METRICS = (
    ("Latency", "latency_ms"),
    ("Time to first token", "ttft_ms"),
    ("Time per output token", "tpot_ms"),
    ("Gap between chunks", "gap_ms"),
)


def page(report: dict[str, Any]) -> str:
    """The report as an HTML document."""
    from plotly.offline import get_plotlyjs

    figures = charts(report)
    sections = "".join(
        f"<h2>{escape(title)}</h2><p class=note>{escape(note)}</p>"
        + chart.to_html(
            full_html=False, include_plotlyjs=False, config={"displaylogo": False, "responsive": True}
        )
        for title, note, chart in figures
    )
    return document(
        f"Load test of {report['target']['name']}",
        _head(report) + _table(report) + _details(report) + sections + _plan(report),
        get_plotlyjs(),
    )


def document(title: str, body: str, script: str) -> str:
    """A page with this body and the chart script inlined."""
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{escape(title)}</title>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline';"
        " script-src 'unsafe-inline' 'unsafe-eval'; img-src data: blob:; font-src data:\">"
        f"<style>{_STYLE}</style><script>{script}</script></head><body>{body}</body></html>"
    )


def _head(report: dict[str, Any]) -> str:
    requests, rates, target = report["requests"], report["rates"], report["target"]
    text = (
        f"<h1>Load test of {escape(target['name'])}</h1><p class=note><code>{escape(target['base_url'])}</code>"
        f" {escape(target['endpoint'])}, begun {escape(report['started_at'])}</p>"
        f"<p>Offered <b>{rates['offered_per_s']:.1f}</b> requests/s for {rates['measured_s']:.1f} s after a warm-up of"
        f" {requests['warm_up']}. Answered <b>{requests['ok']}</b> of {requests['measured']}"
        f" ({rates['ok_per_s']:.1f}/s), failed {requests['failed']} ({rates['failed_share']:.2%}).</p>"
    )
    if report["interrupted"]:
        text += "<p class='box bad'>Interrupted: this covers what was sent until then.</p>"
    if report["failure"]:
        text += f"<p class='box bad'>Incomplete: {escape(report['failure'])}</p>"
    generator = report["generator"]
    if generator["ok"]:
        late = generator["lateness_ms"] or {"p99": 0.0, "max": 0.0}
        return text + (
            f"<p class='box good'>The generator kept its schedule: {late['p99']:.2f} ms late at p99,"
            f" {late['max']:.1f} ms at most.</p>"
        )
    reasons = "".join(f"<br>{escape(reason)}" for reason in generator["reasons"])
    return (
        text
        + f"<p class='box bad'>The generator was not on time; part of these figures is its own.{reasons}</p>"
    )


def _table(report: dict[str, Any]) -> str:
    head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
    rows = ""
    for label, key in _METRICS:
        if found := report[key]:
            cells = "".join(f"<td>{found[c] if c == 'count' else figure(found[c])}</td>" for c in _COLUMNS)
            rows += f"<tr><td>{label}</td>{cells}</tr>"
    return f"<table><tr><th>ms, from when it was due</th>{head}</tr>{rows}</table>"


def _details(report: dict[str, Any]) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in detail_lines(report))
    return f"<ul>{lines}</ul>" if lines else ""


def _plan(report: dict[str, Any]) -> str:
    rows = ""
    for key, value in _flat(report["plan"]):
        rows += f"<tr><td>{escape(key)}</td><td>{escape(str(value))}</td></tr>"
    return f"<h2>What was asked for</h2><table>{rows}</table>"


def _flat(tree: dict[str, Any], above: str = "") -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for key, value in tree.items():
        name = f"{above}{key}"
        leaves += _flat(value, f"{name}.") if isinstance(value, dict) else [(name, value)]
    return leaves
