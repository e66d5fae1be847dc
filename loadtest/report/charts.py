"""The charts of a report: load and answers over time, percentiles over time, cumulative distribution, heat map."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLUE, _GREEN, _RED, _ORANGE, _GREY = "#2b6cb0", "#2c9a4b", "#c8321f", "#d98a00", "#8a94a3"
_HEAT_ROWS = 60


def charts(report: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """(title, explanation, plotly figure) for each chart that there is data for."""
    line = report["timeline"]
    if not line["due"]:
        return []
    found = [
        (
            "Load and answers over time",
            "Requests by when they were due; answers and failures by when they ended. In flight: highest seen in the slice.",
            _rates(line, report),
        )
    ]
    if any(value is not None for value in line["p50"]):
        found += [
            (
                "Latency over time",
                "By when requests were due; slices with few requests are noisy.",
                _percentiles(line, report),
            ),
            (
                "How latency is distributed",
                "Share no slower than this. A request given up counts with the time it had waited.",
                _cdf(report),
            ),
            (
                "Heat map of latency",
                "Darker: more answers. Two bands mean two kinds of answers.",
                _heat(line),
            ),
        ]
    return found


def layout(figure: Any, x_title: str, y_title: str, height: int = 360, **more: Any) -> Any:
    """The look that all charts share."""
    figure.update_layout(
        template="plotly_white",
        height=height,
        margin={"l": 60, "r": 60, "t": 20, "b": 50},
        xaxis_title=x_title,
        yaxis_title=y_title,
        legend={"orientation": "h", "y": 1.1},
        **more,
    )
    return figure


def _times(line: dict[str, Any]) -> list[float]:
    return [round((k + 0.5) * line["width_s"], 3) for k in range(len(line["due"]))]


def _rates(line: dict[str, Any], report: dict[str, Any]) -> Any:
    import plotly.graph_objects as go

    times, width_s = _times(line), line["width_s"]
    figure = go.Figure()
    for key, name, colour in (("due", "due", _GREY), ("ok", "answered", _GREEN), ("failed", "failed", _RED)):
        rates = [n / width_s for n in line[key]]
        figure.add_scatter(x=times, y=rates, name=f"{name}/s", line={"color": colour})
    figure.add_scatter(
        x=times, y=line["in_flight"], name="in flight", yaxis="y2", line={"color": _BLUE, "dash": "dot"}
    )
    axis = {
        "title": "in flight",
        "overlaying": "y",
        "side": "right",
        "showgrid": False,
        "rangemode": "tozero",
        "tickmode": "auto",  # otherwise plotly puts its ticks at the other axis's grid lines
        "nticks": 6,
    }
    _mark_warm_up(figure, report)
    return layout(
        figure,
        "s after the start",
        "requests/s",
        yaxis2=axis,
        yaxis={"rangemode": "tozero"},
        xaxis={"rangemode": "tozero"},
    )


def _mark_warm_up(figure: Any, report: dict[str, Any]) -> None:
    if warmup_s := report["plan"]["warmup_s"]:
        figure.add_vrect(
            x0=0, x1=warmup_s, fillcolor=_GREY, opacity=0.15, line_width=0, annotation_text="warm-up"
        )


def _percentiles(line: dict[str, Any], report: dict[str, Any]) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    for key, colour in (("p50", _GREEN), ("p90", _ORANGE), ("p99", _RED)):
        figure.add_scatter(x=_times(line), y=line[key], name=key, line={"color": colour})
    _mark_warm_up(figure, report)
    return layout(
        figure, "s after the start", "latency, ms", yaxis={"type": "log"}, xaxis={"rangemode": "tozero"}
    )


def _cdf(report: dict[str, Any]) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    for key, name, colour in (
        ("latency", "latency", _BLUE),
        ("ttft", "first token", _GREEN),
        ("tpot", "per token", _GREY),
        ("gap", "gap", _ORANGE),
    ):
        if points := report["distribution"][key]:
            figure.add_scatter(
                x=[ms for _, ms in points],
                y=[share for share, _ in points],
                name=name,
                line={"color": colour},
            )
    return layout(figure, "ms", "share", xaxis={"type": "log"}, yaxis={"range": [0, 1.01]})


def _heat_sums(line: dict[str, Any]) -> NDArray[np.int64]:
    sums = np.zeros(len(line["heat_edges_ms"]) - 1, dtype=np.int64)
    for heat in line["heat"]:
        for bucket, count in heat.items():
            sums[int(bucket)] += count
    return sums


def _heat(line: dict[str, Any]) -> Any:
    import plotly.graph_objects as go

    edges, used = line["heat_edges_ms"], np.flatnonzero(_heat_sums(line))
    low, high = int(used[0]), int(used[-1]) + 1
    step = max(1, -(-(high - low) // _HEAT_ROWS))
    rows = range(low, high, step)
    grid = np.zeros((len(rows), len(line["heat"])))
    for column, heat in enumerate(line["heat"]):
        for bucket, count in heat.items():
            grid[(int(bucket) - low) // step, column] += count
    middles = [round((edges[k] * edges[min(k + step, len(edges) - 1)]) ** 0.5, 4) for k in rows]
    shown = [[n if n else None for n in row] for row in grid.tolist()]
    figure = go.Figure(
        go.Heatmap(
            x=_times(line),
            y=middles,
            z=[[float(np.log10(n)) if n else None for n in row] for row in shown],
            customdata=shown,
            colorscale="Blues",
            showscale=False,
            hovertemplate="%{x} s, about %{y} ms: %{customdata} answers<extra></extra>",
        )
    )
    return layout(figure, "s after the start (when due)", "latency, ms", yaxis={"type": "log"})
