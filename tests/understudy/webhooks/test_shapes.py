"""Messages in the shapes of Slack, Teams and PagerDuty: every event is said, and no name becomes markup."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from understudy.settings.webhooks import Event
from understudy.webhooks.shapes import Shape, shaped

AT = "2027-01-01T00:00:00+00:00"
QUALITY = {
    "model": "gpt-4o",
    "engine": "small",
    "by": "judge",
    "level": "critical",
    "quality": 0.81,
    "low": 0.75,
}
QUALITY |= {"high": 0.86, "outcomes": 90, "wanted": 0.9, "fallen": False, "tenant": None, "tenant_name": None}
DATA: dict[str, dict[str, Any]] = {
    "budget.crossed": {
        "key": "k1",
        "name": "web",
        "per": "day",
        "limit_usd": 10.0,
        "spent_usd": 8.1,
        "percent": 80,
    },
    "engine.down": {"engine": "large", "since": AT},
    "engine.up": {"engine": "large", "since": None},
    "quality.alarm": QUALITY,
    "disk.low": {"free_bytes": 1, "free_percent": 3.2},
    "key.expiring": {"key": "k1", "name": "web", "tenant": "acme", "expires_at": AT, "within_days": 7},
}
SAID = {
    "budget.crossed": "Key web has spent 80 % of its budget of $10 (day)",
    "engine.down": "Engine large is down",
    "engine.up": "Engine large can be asked again",
    "quality.alarm": "Answers of small for gpt-4o are worse than wanted: 81.0% by judge, 90.0% is wanted",
    "disk.low": "3.2 % of the data folder's disk is free",
    "key.expiring": "Key web of tenant acme ends within 7 days",
}
SEVERITIES = {
    "engine.down": "critical",
    "quality.alarm": "critical",
    "disk.low": "critical",
    "engine.up": "info",
}


def made(shape: Shape, event: str, **changes: Any) -> Any:
    body = json.dumps({"type": event, "timestamp": AT, "data": DATA[event] | changes})
    return json.loads(shaped(shape, "msg_1", body, "r0uting"))


def test_every_event_has_a_sentence_here() -> None:
    assert set(DATA) == set(get_args(Event)) == set(SAID)


@pytest.mark.parametrize("event", SAID)
def test_every_shape_says_what_happened(event: str) -> None:
    assert made("slack", event)["text"].startswith(f"*{SAID[event]}*\n")
    (attachment,) = made("teams", event)["attachments"]
    title, facts = attachment["content"]["body"]
    assert title["text"] == SAID[event]
    assert all(isinstance(fact["value"], str) for fact in facts["facts"])
    page = made("pagerduty", event)
    assert page["payload"]["summary"] == SAID[event] and page["payload"]["timestamp"] == AT
    assert page["payload"]["severity"] == SEVERITIES.get(event, "warning")


def test_an_engine_that_comes_back_resolves_what_it_being_down_triggered() -> None:
    down, up = made("pagerduty", "engine.down"), made("pagerduty", "engine.up")
    assert (down["event_action"], up["event_action"]) == ("trigger", "resolve")
    assert (
        down["dedup_key"] == up["dedup_key"] != made("pagerduty", "engine.down", engine="small")["dedup_key"]
    )
    assert made("pagerduty", "disk.low")["dedup_key"] == "understudy:msg_1"


def test_a_name_calls_nobody_in_slack() -> None:
    text = made("slack", "engine.down", engine="<!channel> & co")["text"]
    assert "<" not in text and "&lt;!channel&gt; &amp; co" in text
