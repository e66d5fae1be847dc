"""The charts of *Simulate*: quality against cost with intervals, and the log over time."""

from __future__ import annotations

from typing import Any

_COLOURS = {"logged": "series-8"}
_SYMBOLS = {"logged": "diamond", "always": "square", "few_shot": "triangle-up"}
_CAPS = "what was done, with at most k examples"


def frontier_chart(points: list[dict[str, Any]], caps: list[dict[str, Any]]) -> dict[str, Any]:
    """Quality against cost, with intervals; one trace per policy, a line through its preferences, and one through the caps.

    The axes hold every point. An interval may extend beyond them: the widest would shrink all the rest to a dot.
    """
    by_policy: dict[str, list[dict[str, Any]]] = {}
    for point in points:
        if _known(point):
            by_policy.setdefault(point["policy"], []).append(point)
    lines: list[dict[str, Any]] = []
    single: list[dict[str, Any]] = []
    for place, (policy, own) in enumerate(by_policy.items()):
        own.sort(key=lambda point: point["preference"] or 0.0)
        colour = _COLOURS.get(policy, f"series-{place % 7 + 1}")
        texts = [
            "" if point["preference"] is None else f"preference {point['preference']:g}" for point in own
        ]
        symbol = _SYMBOLS.get(policy.partition(":")[0], "circle")
        (lines if len(own) > 1 else single).append(_trace(own, own[0]["says"], texts, colour, symbol))
    reached = [cap for cap in caps if _known(cap)]
    if len(reached) > 1:
        texts = [f"k = {cap['most']}" for cap in reached]
        lines.append(_trace(reached, _CAPS, texts, "series-7", "circle-open"))
    shown = [*(point for own in by_policy.values() for point in own), *reached]
    across = [1000 * point["cost_usd"]["value"] for point in shown]
    up = [point["quality"]["value"] for point in shown]
    # Single points are drawn last, so that no line covers them.
    return {
        "traces": lines + single,
        "layout": {
            "xaxis": {
                "title": {"text": "dollars per 1000 requests"},
                "range": [0, 1.15 * max(across, default=0.0) or 1],
                "fixedrange": True,
            },
            "yaxis": {
                "title": {"text": "quality (1 = the reference)"},
                "range": [max(0.0, min(up, default=0.0) - 0.15), 1.04],
                "fixedrange": True,
            },
        },
    }


def _known(point: dict[str, Any]) -> bool:
    return point["quality"]["value"] is not None and point["cost_usd"]["value"] is not None


def _trace(
    own: list[dict[str, Any]], name: str, texts: list[str], colour: str, symbol: str
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(own) > 1 else "markers",
        "name": name,
        "x": [1000 * point["cost_usd"]["value"] for point in own],
        "y": [point["quality"]["value"] for point in own],
        "text": texts,
        "error_x": _bars(own, "cost_usd", 1000.0, colour),
        "error_y": _bars(own, "quality", 1.0, colour),
        "line": {"color": colour, "width": 1.5},
        "marker": {
            "color": colour,
            "size": [14 if point["asked"] and len(own) > 1 else 10 for point in own],
            "symbol": symbol,
        },
        "hovertemplate": "%{fullData.name} %{text}<br>quality %{y:.3f}<br>$%{x:.4f} per 1000<extra></extra>",
    }


def _bars(points: list[dict[str, Any]], figure: str, times: float, colour: str) -> dict[str, Any]:
    def away(end: str) -> list[float]:
        return [
            times * abs(point[figure][end] - point[figure]["value"])
            if point[figure][end] is not None
            else 0.0
            for point in points
        ]

    return {
        "type": "data",
        "symmetric": False,
        "array": away("high"),
        "arrayminus": away("low"),
        "color": colour,
        "thickness": 1,
        "width": 3,
    }


def reward_chart(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """Reward, known and expected quality and familiarity, block by block of the log."""
    return {
        "traces": [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": says,
                "x": [int(block["at_s"] * 1000) for block in blocks],
                "y": [block[name] for block in blocks],
                "line": {"color": colour, "width": 2, "dash": dash},
                "marker": {"color": colour},
            }
            for name, says, colour, dash in (
                ("reward", "reward at this preference", "series-1", "solid"),
                ("quality", "quality as it became known", "series-3", "solid"),
                ("expected", "quality as it was expected", "series-3", "dot"),
                ("familiarity", "similarity to the nearest example", "series-2", "solid"),
            )
        ],
        "layout": {"xaxis": {"type": "date"}, "yaxis": {"title": {"text": "0 to 1"}}},
    }
