"""What if: the dials moved on paper, and what they would have brought to the requests that were answered."""

from __future__ import annotations

from typing import Any

from admin.page import ActionFailed, Asked, BadParameter, Summary
from admin.sources import Sources
from admin.summaries.router import dials
from admin.what_if import NothingToLearnFrom, Question, TooMuchAsked, WhatIf

_WAIT_S = 20.0
_COLOURS = {"logged": "series-8"}


def what_if(sources: Sources, asked: Asked) -> Summary:
    """For one served model and tenant: `model`, `tenant`; dials: `preference`, `theta`, `m`, `max_examples`.

    Waits for the computation, but not for ever: `computing` tells that it goes on. What is not given is as it is in force.
    """
    slots = sources.store.choices.slots()
    names = [model.name for model in sources.given.models]
    model = asked.text("model", longest=200) or (names[0] if names else "")
    if model and model not in names:
        raise BadParameter(f"model is {model[:60]!r}; one of {', '.join(names)} is right")
    tenants = [tenant for tenant, of in slots if of == model]
    tenant = asked.text("tenant", longest=200) or (tenants[0] if tenants else "")
    now = {row["name"]: row["in_force"] for row in dials(sources, model)["rows"]}
    chosen = {
        "preference": asked.number("preference", now.get("preference", 0.5), least=0.0, most=1.0),
        "theta": asked.number("theta", now.get("theta", 0.8), least=-1.0, most=1.0),
        "m": asked.whole("m", int(now.get("m", 3)), least=1, most=1000),
        "max_examples": asked.whole("max_examples", int(now.get("max_examples", 8)), least=0, most=100),
    }
    tenant_names = sources.tenant_names()
    summary: dict[str, Any] = {
        "model": model,
        "models": names,
        "tenant": tenant,
        "tenants": [(each, tenant_names.get(each) or each[:12]) for each in tenants],
        "now": now,
        "chosen": chosen,
        "changed": {name: value for name, value in chosen.items() if name in now and now[name] != value},
        "computing": False,
        "nothing": "",
        "result": None,
        "chart": None,
        "reward_chart": None,
    }
    if not tenant:
        return summary | {"nothing": "no decision of this model is in the log yet"}
    question = Question(
        tenant,
        model,
        float(chosen["preference"] or 0.0),
        float(chosen["theta"] or 0.0),
        int(chosen["m"] or 1),
    )
    try:
        result = shared(sources).answer(question, _WAIT_S)
    except NothingToLearnFrom as error:
        return summary | {"nothing": str(error)}
    except TooMuchAsked as error:
        raise ActionFailed(str(error)) from error
    if result is None:
        return summary | {"computing": True}
    points = [_point(point, question) for point in result["points"]]
    return summary | {
        "result": {**{name: result[name] for name in _TOLD}, "points": points},
        "chart": _chart(points),
        "reward_chart": _reward_chart(result["over_time"]),
    }


_TOLD = (
    "requests",
    "judged",
    "level",
    "quality_is",
    "cautions",
    "policies_left_out",
    "by_count",
    "over_time",
)


def shared(sources: Sources) -> WhatIf:
    """The one that all pages ask."""
    found = sources.extra.setdefault("what_if", WhatIf(sources.store))
    assert isinstance(found, WhatIf)
    return found


def _point(point: dict[str, Any], question: Question) -> dict[str, Any]:
    """One policy at one dial, by the doubly robust estimate."""
    dial = point["dial"]
    name = point["policy"]
    return {
        "policy": name,
        "says": _says(name),
        "dial": dial,
        "offloaded": point["offloaded"],
        "quality": point["quality"]["dr"],
        "cost_usd": point["cost_usd"]["dr"],
        "latency_s": point["latency_s"]["dr"],
        "effective_samples": point["effective_samples"],
        "unsupported": point["unsupported"],
        "asked": name.startswith("few_shot:") or dial == question.preference,
    }


def _says(policy: str) -> str:
    if policy == "logged":
        return "what was done"
    if policy == "expected":
        return "by what the router expected"
    kind, _, rest = policy.partition(":")
    if kind == "always":
        return f"always {rest}"
    if kind == "few_shot":
        theta, _, m = rest.partition(",")
        return f"the rule: {m} within {theta}"
    return policy


def _chart(points: list[dict[str, Any]]) -> dict[str, Any]:
    """Quality against cost, with intervals; one trace per policy, a line through its dials."""
    by_policy: dict[str, list[dict[str, Any]]] = {}
    for point in points:
        if point["quality"]["value"] is not None and point["cost_usd"]["value"] is not None:
            by_policy.setdefault(point["policy"], []).append(point)
    traces = []
    for place, (policy, own) in enumerate(by_policy.items()):
        own.sort(key=lambda point: point["dial"] or 0.0)
        colour = _COLOURS.get(policy, f"series-{place % 7 + 1}")
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if len(own) > 1 else "markers",
                "name": own[0]["says"],
                "x": [1000 * point["cost_usd"]["value"] for point in own],
                "y": [point["quality"]["value"] for point in own],
                "text": ["" if point["dial"] is None else f"dial {point['dial']:g}" for point in own],
                "error_x": _bars(own, "cost_usd", 1000.0, colour),
                "error_y": _bars(own, "quality", 1.0, colour),
                "line": {"color": colour, "width": 1.5},
                "marker": {
                    "color": colour,
                    "size": [14 if point["asked"] and len(own) > 1 else 9 for point in own],
                    "symbol": "diamond" if policy == "logged" else "circle",
                },
                "hovertemplate": "%{fullData.name} %{text}<br>quality %{y:.3f}<br>$%{x:.4f} per 1000<extra></extra>",
            }
        )
    return {
        "traces": traces,
        "layout": {
            "xaxis": {"title": {"text": "dollars per 1000 requests"}, "rangemode": "tozero"},
            "yaxis": {"title": {"text": "quality"}},
        },
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


def _reward_chart(blocks: list[dict[str, Any]]) -> dict[str, Any]:
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
                ("reward", "reward at this dial", "series-1", "solid"),
                ("quality", "quality as it became known", "series-3", "solid"),
                ("expected", "quality as it was expected", "series-3", "dot"),
                ("familiarity", "likeness to the nearest example", "series-2", "solid"),
            )
        ],
        "layout": {"xaxis": {"type": "date"}, "yaxis": {"title": {"text": "0 to 1"}}},
    }
