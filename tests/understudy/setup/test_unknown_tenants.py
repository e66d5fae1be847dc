"""Tenants that settings name, and nobody is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from store import Store
from understudy.settings.file import parse_config
from understudy.setup.unknown_tenants import tell_unknown_tenants

CONFIG: dict[str, Any] = {
    "upstream": {"base_url": "http://127.0.0.1:1/v1"},
    "sharing": {"grants": [{"from": "acme", "to": ["umbrela", "id:" + "0" * 32]}]},
    "engines": {
        "e": {
            "kind": "vllm",
            "base_url": "http://127.0.0.1:1/v1",
            "advanced": {"tenant_priorities": {"acme": 1, "nobody": 2}},
        }
    },
}


def test_each_is_told_with_its_setting_and_what_was_meant(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    try:
        for name in ("acme", "umbrella"):
            store.keys.create(name, "laptop")
        with capture_logs() as logs:
            tell_unknown_tenants(parse_config(CONFIG), store.keys)
    finally:
        store.close()
    told = {event["setting"]: event for event in logs if event["event"] == "tenant_unknown"}
    assert told.keys() == {"sharing.grants.to", "engines.e.advanced.tenant_priorities"}
    slip = told["sharing.grants.to"]
    assert slip["tenant"] == "umbrela" and slip["remedy"] == "did you mean umbrella?"
    assert slip["known"] == ["acme", "umbrella"]
    assert told["engines.e.advanced.tenant_priorities"]["tenant"] == "nobody"


def test_settings_that_name_nobody_tell_nothing(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    try:
        with capture_logs() as logs:
            tell_unknown_tenants(parse_config({"upstream": CONFIG["upstream"]}), store.keys)
    finally:
        store.close()
    assert not logs
