"""Settings of replay: a time that never comes, a zone that is none, a run nobody could judge are told before it starts."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from understudy.settings.file import ConfigError, parse_config
from understudy.settings.replay import time_zone

ENGINES = {
    "small": {
        "kind": "simulated",
        "role": "understudy",
        "price": {"input_usd_per_mtok": 0, "output_usd_per_mtok": 1},
    },
    "large": {
        "kind": "simulated",
        "role": "lead",
        "price": {"input_usd_per_mtok": 0, "output_usd_per_mtok": 10},
    },
}
REMEMBERS = {"data_dir": "data"}


def configured(replay: dict[str, Any], **more: Any) -> dict[str, Any]:
    models = {"m": {"engines": ["small", "large"]}}
    return {"engines": ENGINES, "models": models, "memory": REMEMBERS, "replay": replay} | more


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (configured({"cron": "at two"}), ["replay.cron is 'at two'", "0 2 * * *"]),
        (configured({"cron": "61 2 * * *"}), ["'61 2 * * *'", "Bad minute"]),
        (configured({"cron": "0 0 0 2 * *"}), ["five fields"]),
        (configured({"cron": "0 2 31 2 *"}), ["'0 2 31 2 *'"]),
        (configured({"time_zone": "Mars/Olympus"}), ["replay.time_zone is 'Mars/Olympus'", "Europe/Rome"]),
        (configured({"time_zone": "../../etc/passwd"}), ["no time zone"]),
        (configured({"time_zone": "Europe"}), ["no time zone"]),
        (configured({"max_run_usd": -1}), ["replay.max_run_usd is -1"]),
        (configured({"judge": "nobody"}), ["replay.judge", "'nobody'", "large, small"]),
        (
            configured({"advanced": {"kv_plan": {"engines": ["none"]}}}),
            ["replay.advanced.kv_plan.engines", "'none'"],
        ),
        (configured({"enabled": True}), ["replay.judge", "judging"]),
        (
            configured({"advanced": {"kv_plan": {"engines": ["small"]}}}),
            ["replay.advanced.kv_plan.engines", "small", "order stable"],
        ),
        (configured({"enabled": True, "judge": "large"}, memory=None), ["set `memory`"]),
        (configured({"enabled": True, "judge": "large"}, memory={}), ["data_dir", "name a folder"]),
    ],
)
def test_a_wrong_setting_is_named_with_its_value_and_what_would_be_right(
    data: dict[str, Any], told: list[str]
) -> None:
    with pytest.raises(ConfigError) as failed:
        parse_config(data)
    assert all(text in str(failed.value) for text in told), str(failed.value)


def test_a_plan_that_nobody_would_make_is_told() -> None:
    model = {
        "engines": ["small", "large"],
        "policy": "in_context",
        "advanced": {"example_order": "stable"},
    }
    data = configured({"advanced": {"kv_plan": {"engines": ["small"]}}}, models={"m": model})
    with pytest.raises(ConfigError, match="nobody would make the plan"):
        parse_config(data)
    data["replay"] |= {"enabled": True, "judge": "large"}
    assert parse_config(data).replay.advanced.kv_plan.engines == ("small",)


def test_replay_is_off_unless_it_is_asked_for() -> None:
    assert not parse_config(configured({})).replay.enabled


def test_what_replay_needs_is_enough_for_it() -> None:
    replay = {"enabled": True, "judge": "large", "cron": None, "time_zone": "Europe/Rome"}
    config = parse_config(configured(replay))
    assert config.memory is not None
    assert config.memory.data_dir == Path("data")
    assert str(time_zone(config.replay.time_zone)) == "Europe/Rome"


def test_utc_needs_no_zone_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "understudy.settings.replay.ZoneInfo", lambda name: pytest.fail("the database was asked")
    )
    assert time_zone("UTC") is UTC
