from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from understudy.settings.file import ConfigError, parse_config
from understudy.setup.telemetry import TelemetryMissing, telemetry

UPSTREAM = {"upstream": {"base_url": "http://127.0.0.1:9/v1"}}


def never(kind: Any) -> Any:
    raise AssertionError("nothing is counted where nothing is sent")


def test_without_a_collector_there_is_none() -> None:
    assert telemetry(parse_config(UPSTREAM), never) is None


def test_without_the_sdk_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    config = parse_config(UPSTREAM | {"otel": {"endpoint": "http://127.0.0.1:4318"}})
    with pytest.raises(TelemetryMissing, match=r"understudy-gateway\[otel\]"):
        telemetry(config, never)


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("http://127.0.0.1:4318/v1/traces", "http://127.0.0.1:4318 is right"),
        ("http://user:secret@127.0.0.1:4318", "must not carry credentials"),
        ("127.0.0.1:4318", "http:// or https://"),
    ],
)
def test_an_endpoint_that_would_not_work_is_refused(endpoint: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        parse_config(UPSTREAM | {"otel": {"endpoint": endpoint}})
    assert "secret" not in str(refused.value)
