"""Puts a message into the JSON that its receiver reads: Slack, Teams, PagerDuty, or as it is. Pure.

Slack: incoming webhooks. Teams: a workflow's "When a Teams webhook request is received", with an Adaptive Card. PagerDuty:
Events API v2, where an engine that comes back resolves the alert that it was down.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

Shape = Literal["standard", "json", "slack", "teams", "pagerduty"]
SIGNED: Shape = "standard"
_CARD = "application/vnd.microsoft.card.adaptive"
_CARD_SCHEMA = "http://adaptivecards.io/schemas/adaptive-card.json"
_MOST_SUMMARY = 1024
"""Characters that PagerDuty takes of a summary."""


def shaped(shape: Shape, id: str, body: str, routing_key: str = "") -> str:
    """What is posted of the message `id`; `routing_key` is PagerDuty's."""
    if shape in ("standard", "json"):
        return body
    said = json.loads(body)
    event, data = said["type"], said["data"]
    make = {"slack": _slack, "teams": _teams}.get(shape)
    made = make(event, data) if make else _pagerduty(id, said, routing_key)
    return json.dumps(made, ensure_ascii=False)


def sentence(event: str, data: Mapping[str, Any]) -> str:
    """What happened, for a person."""
    if event == "budget.crossed":
        who = f"{'Key' if 'key' in data else 'Tenant'} {data['name']}"
        per = data["per"]
        return f"{who} has spent {data['percent']} % of its budget of ${data['limit_usd']:g} ({per})"
    if event == "engine.down":
        return f"Engine {data['engine']} is down"
    if event == "engine.up":
        return f"Engine {data['engine']} can be asked again"
    if event == "quality.alarm":
        of = f" of tenant {data['tenant_name'] or data['tenant']}" if data["tenant"] else ""
        return (
            f"Answers of {data['engine']} for {data['model']}{of} are worse than wanted: "
            f"{data['quality']:.1%} by {data['by']}, {data['wanted']:.1%} is wanted"
        )
    if event == "disk.low":
        return f"{data['free_percent']:g} % of the data folder's disk is free"
    if event == "key.expiring":
        return f"Key {data['name']} of tenant {data['tenant']} ends within {data['within_days']} days"
    return event


def severity(event: str, data: Mapping[str, Any]) -> str:
    """PagerDuty's: `critical`, `warning` or `info`."""
    if event == "engine.up":
        return "info"
    worst = (
        event in ("engine.down", "disk.low") or data.get("level") == "critical" or data.get("percent") == 100
    )
    return "critical" if worst else "warning"


def _facts(data: Mapping[str, Any]) -> dict[str, str]:
    return {name.replace("_", " "): str(value) for name, value in data.items() if value is not None}


def _slack(event: str, data: Mapping[str, Any]) -> dict[str, Any]:
    facts = "\n".join(f"{name}: {value}" for name, value in _facts(data).items())
    text = f"*{sentence(event, data)}*\n{facts}"
    # A name such as <!channel> would call everybody.
    return {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}


def _teams(event: str, data: Mapping[str, Any]) -> dict[str, Any]:
    title = {"type": "TextBlock", "text": sentence(event, data), "weight": "Bolder", "wrap": True}
    facts = [{"title": name, "value": value} for name, value in _facts(data).items()]
    card = {
        "$schema": _CARD_SCHEMA,
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [title, {"type": "FactSet", "facts": facts}],
    }
    return {
        "type": "message",
        "attachments": [{"contentType": _CARD, "contentUrl": None, "content": card}],
    }


def _pagerduty(id: str, said: Mapping[str, Any], routing_key: str) -> dict[str, Any]:
    event, data = said["type"], said["data"]
    # What went down and what came back are one alert; each other message is one of its own.
    of = f"engine:{data['engine']}" if event in ("engine.down", "engine.up") else id
    return {
        "routing_key": routing_key,
        "event_action": "resolve" if event == "engine.up" else "trigger",
        "dedup_key": f"understudy:{of}",
        "payload": {
            "summary": sentence(event, data)[:_MOST_SUMMARY],
            "source": "understudy",
            "severity": severity(event, data),
            "timestamp": said["timestamp"],
            "class": event,
            "custom_details": data,
        },
    }
