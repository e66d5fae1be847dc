"""Who may listen for strangers."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.settings.file import parse_config
from understudy.setup.exposure import exposure

KEYED: dict[str, Any] = {"upstream": {"base_url": "https://api.test/v1", "api_key": "sk-operator"}}
KEYLESS: dict[str, Any] = {"upstream": {"base_url": "https://api.test/v1"}}
ENGINE: dict[str, Any] = {
    "engines": {
        "e": {"base_url": "https://api.test/v1", "advanced": {"headers": {"api-key": "sk-operator"}}}
    },
    "models": {"m": {"engines": ["e"]}},
}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "gateway.test"])
@pytest.mark.parametrize(("config", "named"), [(KEYED, "upstream"), (KEYLESS | ENGINE, "engines.e")])
def test_an_address_that_others_reach_needs_a_gateway_key_before_an_operators(
    host: str, config: dict[str, Any], named: str
) -> None:
    made = parse_config(config | {"listen": {"host": host}})
    why = exposure(made, has_keys=False)
    assert why is not None and "sk-operator" not in why
    for word in (
        repr(host),
        f"your key of {named}.",
        "keys create",
        "127.0.0.1",
        "listen.open: true",
        "--open",
    ):
        assert word in why
    assert exposure(made, has_keys=True) is None
    assert exposure(parse_config(config | {"listen": {"host": host, "open": True}}), has_keys=False) is None


@pytest.mark.parametrize(
    "config",
    [
        KEYED,
        KEYED | {"listen": {"host": "127.0.0.2"}},
        KEYED | {"listen": {"host": "localhost"}},
        KEYED | {"listen": {"host": "::1"}},
        KEYLESS | {"listen": {"host": "0.0.0.0"}},
    ],
)
def test_this_machine_alone_and_clients_own_keys_need_none(config: dict[str, Any]) -> None:
    assert exposure(parse_config(config), has_keys=False) is None
