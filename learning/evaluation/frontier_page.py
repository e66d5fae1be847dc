"""The frontier as one HTML page that needs nothing else: a picture drawn here as SVG, the figures below it.

Whatever stands in it as text is escaped: engine and policy names come from outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from learning.evaluation.frontier import cautions
from learning.evaluation.off_policy import METHODS, Method

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 900, 460, 70, 20, 20, 50
_COLOURS = ("#1f6feb", "#c8321f", "#2c9a4b", "#8a4fd3", "#b58900", "#0b8f96", "#d6428c", "#5a6675")
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2rem auto;padding:0 1rem;color:#1c2430;background:#fff}
h1{font-size:1.4rem}table{border-collapse:collapse}td,th{padding:.2rem .7rem;border-bottom:1px solid #dde3ea;
text-align:right}
td:first-child,th:first-child{text-align:left}p.note{color:#5a6675}svg{max-width:100%;height:auto}
svg text{font-size:12px;fill:#1c2430}
"""


def page(data: dict[str, Any], title: str, method: Method = "dr") -> str:
    """The document for learning.evaluation.frontier.frontier's data, showing one method's estimates."""
    notes = "".join(f"<p class=note>{escape(line)}</p>" for line in cautions(data))
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f"<p>{data['requests']} requests, quality known of {data['judged']}. Up and left is better; bars are"
        f" {data['level']:.0%} intervals ({escape(method)}).</p>"
        f"{picture(data, method)}{_table(data)}{notes}</body></html>"
    )


def picture(data: dict[str, Any], method: Method = "dr") -> str:
    """Quality over cost as an SVG element; dials of one policy are joined. Points without both figures are left out."""
    points = [
        point
        for point in data["points"]
        if all(point[figure][method]["value"] is not None for figure in ("cost_usd", "quality"))
    ]
    if not points:
        return "<p>Nothing is known of any policy.</p>"
    across = _Axis([_ends(point, "cost_usd", method) for point in points], _LEFT, _WIDTH - _RIGHT, 1000.0)
    up = _Axis([_ends(point, "quality", method) for point in points], _HEIGHT - _BOTTOM, _TOP, 1.0)
    names = list(dict.fromkeys(point["policy"] for point in points))
    drawn = [across.lines(vertical=True), up.lines(vertical=False)]
    for index, name in enumerate(names):
        colour = _COLOURS[index % len(_COLOURS)]
        own = [point for point in points if point["policy"] == name]
        at = [(across.at(p["cost_usd"][method]["value"]), up.at(p["quality"][method]["value"])) for p in own]
        if len(own) > 1:
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
            drawn.append(f"<polyline points='{line}' fill=none stroke='{colour}' stroke-width=1.5 />")
        for point, (x, y) in zip(own, at, strict=True):
            (left, right), (low, high) = _ends(point, "cost_usd", method), _ends(point, "quality", method)
            dial = "" if point["dial"] is None else f" at {point['dial']:g}"
            drawn.append(
                f"<g stroke='{colour}'><title>{escape(name)}{dial}: quality {low:.3f} to {high:.3f}</title>"
                f"<line x1={across.at(left):.1f} x2={across.at(right):.1f} y1={y:.1f} y2={y:.1f} opacity=.5 />"
                f"<line x1={x:.1f} x2={x:.1f} y1={up.at(low):.1f} y2={up.at(high):.1f} opacity=.5 />"
                f"<circle cx={x:.1f} cy={y:.1f} r=4 fill='{colour}' /></g>"
            )
        drawn.append(
            f"<text x={_WIDTH - _RIGHT - 8} y={_HEIGHT - _BOTTOM - 12 - 16 * (len(names) - 1 - index)}"
            f" text-anchor=end style='fill:{colour}'>{escape(name)}</text>"
        )
    drawn.append(
        f"<text x={(_LEFT + _WIDTH) / 2} y={_HEIGHT - 8} text-anchor=middle>USD per 1000 requests</text>"
        f"<text x=14 y={_HEIGHT / 2} text-anchor=middle transform='rotate(-90 14 {_HEIGHT / 2})'>quality</text>"
    )
    return f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role=img aria-label='quality over cost'>{''.join(drawn)}</svg>"


class _Axis:
    """Values onto pixels, with room around them."""

    def __init__(self, spans: Sequence[tuple[float, float]], first: float, last: float, times: float) -> None:
        low, high = min(low for low, _ in spans), max(high for _, high in spans)
        room = (high - low) * 0.06 or max(abs(high), 1e-6) * 0.1
        self._low, self._high = low - room, high + room
        self._first, self._last, self._times = first, last, times

    def at(self, value: float) -> float:
        """The pixel."""
        return self._first + (value - self._low) / (self._high - self._low) * (self._last - self._first)

    def lines(self, *, vertical: bool) -> str:
        """Five lines with their values."""
        drawn = []
        for step in range(5):
            value = self._low + (self._high - self._low) * (step + 0.5) / 5
            at, text = self.at(value), f"{value * self._times:.3g}"
            if vertical:
                ends = f"x1={at:.1f} x2={at:.1f} y1={_TOP} y2={_HEIGHT - _BOTTOM}"
                label = f"x={at:.1f} y={_HEIGHT - _BOTTOM + 16} text-anchor=middle"
            else:
                ends = f"y1={at:.1f} y2={at:.1f} x1={_LEFT} x2={_WIDTH - _RIGHT}"
                label = f"x={_LEFT - 6} y={at + 4:.1f} text-anchor=end"
            drawn.append(f"<line {ends} stroke='#e5e9ef' /><text {label}>{text}</text>")
        return "".join(drawn)


def _ends(point: dict[str, Any], figure: str, method: Method) -> tuple[float, float]:
    """The interval; the value itself where an end is not known."""
    told = point[figure][method]
    value = told["value"]
    return (
        value if told["low"] is None else told["low"],
        value if told["high"] is None else told["high"],
    )


def _table(data: dict[str, Any]) -> str:
    head = "".join(f"<th>quality, {method}</th>" for method in METHODS)
    rows = ""
    for point in data["points"]:
        dial = "" if point["dial"] is None else f"{point['dial']:g}"
        cells = "".join(f"<td>{_ranged(point['quality'][method])}</td>" for method in METHODS)
        rows += (
            f"<tr><td>{escape(point['policy'])}</td><td>{dial}</td><td>{point['offloaded']:.1%}</td>{cells}"
            f"<td>{point['effective_samples']:.0f}</td><td>{point['unsupported']:.1%}</td></tr>"
        )
    return (
        f"<table><tr><th>policy</th><th>dial</th><th>offloaded</th>{head}<th>ESS</th><th>unsupported</th></tr>"
        f"{rows}</table>"
    )


def _ranged(told: dict[str, float | None]) -> str:
    value, low, high = ("?" if told[k] is None else f"{told[k]:.3f}" for k in ("value", "low", "high"))
    return f"{value} ({low} to {high})"
