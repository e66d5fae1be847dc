"""Settings of what learns: a dial off its scale, a floor without a judge, a judge of nothing are told before it starts."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from understudy.settings.file import ConfigError, parse_config
from understudy.settings.group import Settings
from understudy.settings.learning import JudgingSettings
from understudy.settings.models import InContextSettings

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
    "judge": {"kind": "simulated", "role": "judge"},
}


def configured(
    in_context: dict[str, Any], advanced: dict[str, Any] | None = None, proof: str = "on", **more: Any
) -> dict[str, Any]:
    model = {
        "engines": ["small", "large"],
        "policy": "in_context",
        "proof": proof,
        "in_context": in_context,
        "advanced": advanced or {},
    }
    return {"engines": ENGINES, "models": {"m": model}, "memory": {}} | more


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (configured({"preference": 1.5}), ["preference is 1.5"]),
        (configured({}, {"key_preferences": {"key_1": 2}}), ["'key_1'", "0 (cheapest) to 1 (best)"]),
        (configured({}, {"epsilon": 0.9}), ["epsilon is 0.9"]),
        (configured({}, {"example_order": "random"}), ["example_order", "'random'", "helpful_last"]),
        (configured({}, proof="floor"), ["max_loss", "judging"]),
        (configured({"max_loss": 0.02}), ["models.m.in_context.max_loss", "did you mean models.m.max_loss"]),
        (configured({}, judging={"engine": "nobody"}), ["judging", "'nobody'"]),
        (configured({"most": 3}), ["most: no such setting"]),
    ],
)
def test_a_wrong_setting_is_named_with_its_value_and_what_would_be_right(
    data: dict[str, Any], told: list[str]
) -> None:
    with pytest.raises(ConfigError) as failed:
        parse_config(data)
    assert all(text in str(failed.value) for text in told), str(failed.value)


def test_a_floor_with_a_judge_is_taken() -> None:
    config = parse_config(configured({}, proof="floor", judging={"engine": "judge", "share_offloaded": 0.1}))
    assert config.models["m"].max_loss == 0.05
    assert isinstance(config.judging, JudgingSettings)


def test_settings_never_change_after_reading() -> None:
    settings = InContextSettings()
    assert isinstance(settings, Settings)
    with pytest.raises(ValidationError):
        settings.preference = 0.1  # type: ignore[misc]
