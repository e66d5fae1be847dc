"""Charts as data for admin/static/charts.js, which gives them to plotly. Colours are names that the page's theme defines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Chart = dict[str, Any]


def stacked(
    labels: Sequence[Any],
    series: Sequence[tuple[str, Sequence[float], str]],
    *,
    unit: str,
    times: bool = False,
    across: bool = False,
) -> Chart:
    """Stacked bars: (name, one value per label, colour) per series. `times`: labels are Unix seconds. `across`: bars are
    horizontal."""
    places = [_instant(at_s) for at_s in labels] if times else list(labels)
    traces = []
    for name, values, colour in series:
        bar: Chart = {"type": "bar", "name": name, "marker": {"color": colour}}
        bar["hovertemplate"] = f"%{{{'x' if across else 'y'}:.4~g}} {unit}<extra>{name}</extra>"
        bar |= (
            {"y": places, "x": list(values), "orientation": "h"}
            if across
            else {"x": places, "y": list(values)}
        )
        traces.append(bar)
    value_axis = {"title": {"text": unit}, "rangemode": "tozero", "fixedrange": True}
    label_axis: Chart = {"fixedrange": True, **({"type": "date"} if times else {"type": "category"})}
    axes = (
        {"xaxis": value_axis, "yaxis": label_axis} if across else {"xaxis": label_axis, "yaxis": value_axis}
    )
    return {"traces": traces, "layout": {"barmode": "stack", "bargap": 0.15, **axes}}


def lines(
    labels: Sequence[Any],
    series: Sequence[tuple[str, Sequence[float | None], str]],
    *,
    unit: str,
    times: bool = False,
) -> Chart:
    """Lines: (name, one value per label or None for a gap, colour) per series."""
    places = [_instant(at_s) for at_s in labels] if times else list(labels)
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers" if len(places) < 40 else "lines",
            "name": name,
            "x": places,
            "y": list(values),
            "line": {"color": colour, "width": 2},
            "marker": {"color": colour},
        }
        for name, values, colour in series
    ]
    axes = {
        "xaxis": {"fixedrange": True, **({"type": "date"} if times else {})},
        "yaxis": {"title": {"text": unit}, "rangemode": "tozero", "fixedrange": True},
    }
    return {"traces": traces, "layout": axes}


def ranges(
    labels: Sequence[str],
    series: Sequence[tuple[str, Sequence[Mapping[str, float]], str]],
    *,
    unit: str,
) -> Chart:
    """Points with intervals: (name, {"mean", "low", "high"} per label, colour) per series, side by side."""
    traces = []
    for name, points, colour in series:
        means = [point["mean"] for point in points]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": list(labels),
                "y": means,
                "marker": {"color": colour, "size": 9},
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": [point["high"] - mean for point, mean in zip(points, means, strict=True)],
                    "arrayminus": [mean - point["low"] for point, mean in zip(points, means, strict=True)],
                    "color": colour,
                },
            }
        )
    axes = {
        "xaxis": {"type": "category", "fixedrange": True},
        "yaxis": {"title": {"text": unit}, "rangemode": "tozero", "fixedrange": True},
    }
    return {"traces": traces, "layout": {"scattermode": "group", **axes}}


def with_intervals(
    labels: Sequence[float],
    series: Sequence[tuple[str, Sequence[tuple[float, float, float] | None], str]],
    *,
    unit: str,
) -> Chart:
    """Points in time, each with its interval: (name, (value, low, high) or None per label, colour) per series."""
    traces = []
    for name, points, colour in series:
        there = [(at_s, point) for at_s, point in zip(labels, points, strict=True) if point is not None]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": name,
                "x": [_instant(at_s) for at_s, _ in there],
                "y": [value for _, (value, _, _) in there],
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": [high - value for _, (value, _, high) in there],
                    "arrayminus": [value - low for _, (value, low, _) in there],
                    "color": colour,
                },
                "line": {"color": colour, "width": 2},
                "marker": {"color": colour},
            }
        )
    axes = {
        "xaxis": {
            "type": "date",
            "fixedrange": True,
            **(
                {"range": [_instant(labels[0]), _instant(2 * labels[-1] - labels[-2])]}
                if len(labels) > 1
                else {}
            ),
        },
        "yaxis": {"title": {"text": unit}, "rangemode": "tozero", "fixedrange": True},
    }
    return {"traces": traces, "layout": axes}


def _instant(at_s: float) -> int:
    """Milliseconds since 1970, which plotly reads as UTC; charts.js converts them to the pages' zone."""
    return int(at_s * 1000)
