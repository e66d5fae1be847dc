"""What operators are told, and when: once per crossing, not before, and nothing that is not theirs to say."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from learning.evaluation.mean_quality import MeanQuality
from learning.guarantee.quality_alarm import Level, QualityStanding
from store.jobs.engine_states import EngineStateRow
from store.jobs.webhooks import Crossing
from store.people.allowance import NANO, Standing, Window
from store.people.limits import Budget, Limits
from store.records import Key
from understudy.webhooks import events
from understudy.webhooks.events import Budgeted

NOW = 1_700_000_000.0


def percents(found: list[Crossing]) -> list[int]:
    return [json.loads(one.body)["data"]["percent"] for one in found]


@pytest.mark.parametrize(
    ("spent_usd", "told"),
    [
        (0.0, []),
        (4.999999999, []),
        (5.0, [50]),
        (7.99, [50]),
        (8.0, [50, 80]),
        (9.99, [50, 80]),
        (10.0, [50, 80, 100]),
        (40, [50, 80, 100]),
    ],
)
def test_a_budget_is_told_of_at_half_four_fifths_and_its_end(spent_usd: float, told: list[int]) -> None:
    who = Budgeted("key", "k1", "web", Limits(budgets=(Budget(10.0, "day"), Budget(1000.0, "month"))))
    window = Window("key:k1", "usd:day", 1_699_920_000, 1_700_006_400.0)
    found = events.budgets(who, [Standing(window, round(spent_usd * NANO), 0, 0)], NOW)
    assert percents(found) == told and len({one.name for one in found}) == len(found)
    for one in found:
        said = json.loads(one.body)
        assert (
            said["type"] == "budget.crossed"
            and said["data"]["key"] == "k1"
            and said["data"]["limit_usd"] == 10.0
        )


def test_the_next_window_and_another_limit_are_told_of_anew() -> None:
    def names(usd: float, start_s: int) -> set[str]:
        who = Budgeted("tenant", "t", "acme", Limits(budgets=(Budget(usd, "day"),)))
        window = Window("tenant:t", "usd:day", start_s, start_s + 86_400.0)
        return {one.name for one in events.budgets(who, [Standing(window, 30 * NANO, 0, 0)], NOW)}

    assert not names(10, 0) & names(10, 86_400) and not names(10, 0) & names(20, 0)


def row(engine: str, state: str, worker: str = "w", replica: str = "") -> EngineStateRow:
    figures: tuple[Any, ...] = (0, 0, None, 0.0, "closed", False, 0, 0, None, None, None, None)
    return EngineStateRow(worker, engine, NOW, *figures, replica=replica, state=state, since_s=NOW)


def test_an_engine_is_down_when_nobody_can_ask_any_of_it() -> None:
    def states(*rows: EngineStateRow) -> dict[str, str]:
        return {one.name: one.value for one in events.engines(rows, NOW)}

    assert states(row("a", "down"), row("a", "up", "v")) == {"engine:a": "up"}
    assert states(row("a", "down"), row("a", "down", "v"), row("b", "limited")) == {
        "engine:a": "down",
        "engine:b": "up",
    }
    assert states(row("a", "down", replica="1"), row("a", "up", replica="2")) == {"engine:a": "up"}
    assert states(row("a", "unknown"), row("b", "drained")) == {}
    (down,) = events.engines([row("a", "down")], NOW)
    assert down.event == "engine.down" and down.usual == "up"


def test_a_disk_is_low_once_until_there_is_room_again() -> None:
    assert [one.value for one in events.disk(4, 100, NOW)] == ["low"]
    assert events.disk(6, 100, NOW) == [], "between the bounds it is what it was"
    (enough,) = events.disk(50, 100, NOW)
    assert (enough.value, enough.event) == ("enough", "") and events.disk(0, 0, NOW)[0].value == "enough"


def test_a_key_is_told_of_a_week_and_a_day_before_it_ends() -> None:
    def days(in_days: float, **changes: Any) -> list[int]:
        key = Key("k1", "t", "web", "us-ab", 0.0, expires_at_s=NOW + in_days * 86_400, **changes)
        return [json.loads(one.body)["data"]["within_days"] for one in events.expiring([key], NOW)]

    assert (days(8), days(6), days(0.5), days(-1)) == ([], [7], [7, 1], [])
    assert days(0.5, revoked_at_s=1.0) == []
    assert events.expiring([Key("k1", "t", "web", "us-ab", 0.0)], NOW) == []


def test_a_quality_alarm_is_told_and_its_end_noted() -> None:
    def of(level: Level, mean: float) -> list[Crossing]:
        latest = MeanQuality(100, mean, mean - 0.05, mean + 0.05, 0.02)
        return events.quality(
            QualityStanding("gpt-4o", "small", "judge", level, 0.9, latest, latest, None, False), NOW
        )

    (bad,), (warned,), (good,) = of("critical", 0.5), of("warning", 0.88), of("good", 0.95)
    assert bad.name == warned.name == good.name and len({bad.value, warned.value, good.value}) == 3
    assert (bad.event, warned.event, good.event) == ("quality.alarm", "quality.alarm", "")
    data = json.loads(bad.body)["data"]
    assert (data["level"], data["quality"], data["outcomes"], data["wanted"]) == ("critical", 0.5, 100, 0.9)
    assert of("good", 0.905) == [] and of("not known yet", 0.1) == []
    assert (data["tenant"], data["tenant_name"]) == (None, None)


def test_a_tenants_own_alarm_names_it_and_stands_apart_from_everybodys() -> None:
    latest = MeanQuality(100, 0.5, 0.45, 0.55, 0.02)
    everybody = QualityStanding("gpt-4o", "small", "judge", "critical", 0.9, latest, latest, None, False)
    own = replace(everybody, tenant="a1")
    (of_all,), (of_one,) = events.quality(everybody, NOW), events.quality(own, NOW, "acme")
    data = json.loads(of_one.body)["data"]
    assert (data["tenant"], data["tenant_name"]) == ("a1", "acme")
    assert data == json.loads(of_all.body)["data"] | {"tenant": "a1", "tenant_name": "acme"}
    assert of_one.name == f"{of_all.name}:a1" and of_one.event == "quality.alarm"
    assert events.quality(replace(own, alone=True), NOW, "acme") == [], "everybody's says it"
