"""An engine of kind vllm behind the whole gateway: tenants' caches stay apart, whoever the tenants are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engines.vllm_core import installed
from tests.engines.vllm_pages import pages
from tests.flow.line import line
from tests.flow.process import ran
from understudy.commands.serve import config_of_options
from understudy.settings.engines import VLLMLocalEngine
from understudy.settings.file import ConfigError, parse_config


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
        ({"advanced": {"poll_s": 0}}, ["engines.only.advanced.poll_s", "0"]),
        (
            {"advanced": {"server_url": "ftp://here"}},
            ["engines.only.advanced.server_url", "ftp://here", "http://"],
        ),
        (
            {"advanced": {"tenant_priorities": {"acme": "first"}}},
            ["engines.only.advanced.tenant_priorities.acme", "first"],
        ),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(wrong: dict[str, Any], told: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(config("http://127.0.0.1:1/v1", **wrong))
    assert all(part in str(error.value) for part in told), str(error.value)


def local(**more: Any) -> dict[str, Any]:
    engine = {"kind": "vllm-local", "model_dir": "org/model", **more}
    return {"engines": {"only": engine}, "models": {"gpt-4o": {"engines": ["only"]}}}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"model_dir": "/nowhere/model"}, ["engines.only.model_dir", "/nowhere/model", "config.json"]),
        ({"args": ["--port", "9"]}, ["engines.only.args", "--port", "leave it out"]),
        ({"args": ["--served_model_name=x"]}, ["engines.only.args", "--served_model_name=x"]),
    ],
)
def test_a_wrong_setting_of_a_local_engine_is_named_too(wrong: dict[str, Any], told: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(local(**wrong))
    assert all(part in str(error.value) for part in told), str(error.value)


def test_several_workers_would_each_bring_up_a_model_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"listen\.workers is 4.*vllm serve"):
        parse_config(local() | {"listen": {"workers": 4}})
    with pytest.raises(ConfigError, match=r"listen\.workers is 2"):
        config_of_options({"engine": "vllm-local:org/model", "workers": 2})
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(local()))
    status, _, errors = ran("serve", "--config", str(path), "--workers", "3")
    assert status == 2 and "listen.workers is 3" in errors


class TestOneEngineByOption:
    def test_a_folder_is_the_whole_line_for_its_name(self, tmp_path: Path) -> None:
        folder = tmp_path / "small-model"
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        made = config_of_options({"engine": f"vllm-local:{folder}"})
        engine = made.engines["engine"]
        assert isinstance(engine, VLLMLocalEngine) and engine.served_name == "small-model"
        assert list(made.models) == ["small-model"]

    def test_a_server_is_too(self) -> None:
        made = config_of_options({"engine": "vllm:http://127.0.0.1:8000/v1=tiny"})
        assert made.engines["engine"].kind == "vllm" and list(made.models) == ["tiny"]

    @pytest.mark.parametrize("text", ["vllm-local", "vllm-local:", "vllm:http://127.0.0.1/v1", "gpu:x"])
    def test_anything_else_is_refused_with_an_example(self, text: str) -> None:
        with pytest.raises(ConfigError, match=r"vllm-local:/models/small|URL=MODEL"):
            config_of_options({"engine": text})


@pytest.mark.skipif(installed(), reason="vLLM is installed here")
def test_without_vllm_the_gateway_does_not_start_and_says_why() -> None:
    status, _, errors = ran("serve", "--engine", "vllm-local:org/model", "--port", "0")
    assert status == 2 and "vLLM is not installed" in errors and "[vllm]" in errors
