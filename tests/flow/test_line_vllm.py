"""An engine of kind vllm behind the whole gateway: tenants' caches stay apart, whoever the tenants are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.config_file import ConfigError, parse_config
from tests.engines.vllm_pages import pages
from tests.flow.line import line


def config(url: str, **more: Any) -> dict[str, Any]:
    engine = {"kind": "vllm", "base_url": url, "model": "tiny", **more}
    return {"engines": {"only": engine}, "models": {"gpt-4o": {"engines": ["only"]}}}


@pytest.mark.parametrize("remembers", [True, False])
async def test_tenants_do_not_share_a_prefix_cache(tmp_path: Path, remembers: bool) -> None:
    memory = {"data_dir": str(tmp_path), "examples": {"enabled": False}, "exact": {"enabled": False}}
    async with pages() as server, line(config(server.url) | ({"memory": memory} if remembers else {})) as one:
        for credential in ("first", "first", "second"):
            got = await one.chat("Hello?", {"Authorization": f"Bearer {credential}"}, cache_salt="mine")
            assert got.status == 200
    first, again, second = (body["cache_salt"] for body in server.asked)
    assert first == again != second and "mine" not in (first, second)
    assert all(body["model"] == "tiny" for body in server.asked)


async def test_salts_can_be_left_out(tmp_path: Path) -> None:
    async with pages() as server, line(config(server.url, salted=False)) as one:
        await one.chat("Hello?")
    assert "cache_salt" not in server.asked[0]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"poll_s": 0}, ["engines.only.poll_s", "0"]),
        ({"server_url": "ftp://here"}, ["engines.only.server_url", "ftp://here", "http://"]),
        ({"tenant_priorities": {"acme": "first"}}, ["engines.only.tenant_priorities.acme", "first"]),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(wrong: dict[str, Any], told: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(config("http://127.0.0.1:1/v1", **wrong))
    assert all(part in str(error.value) for part in told), str(error.value)
