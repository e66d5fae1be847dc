"""An operator's key on an address that others reach: refused, unless there is a gateway key, or it is meant so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flow.client import once
from tests.flow.process import ran, running
from tests.flow.upstream import Upstream


@pytest.fixture
def config(upstream: Upstream, tmp_path: Path) -> str:
    path = tmp_path / "config.yaml"
    memory = f"{{data_dir: '{tmp_path / 'data'}', examples: {{enabled: false}}}}"
    path.write_text(f"upstream: {{base_url: '{upstream.url}', api_key: sk-canary}}\nmemory: {memory}\n")
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_without_a_gateway_key_it_does_not_start(config: str, workers: str) -> None:
    options = ("--port", "0", "--host", "0.0.0.0", "--workers", workers, "--admin", "off")
    status, _, said = ran("serve", "--config", config, *options)
    assert status == 2 and "canary" not in said
    for word in ("listen.host is '0.0.0.0'", "your key of upstream", "understudy keys create", "--open"):
        assert word in said


def test_with_a_gateway_key_it_starts_and_asks_for_it(
    config: str, upstream: Upstream, tmp_path: Path
) -> None:
    status, secret, _ = ran("keys", "create", "--data", str(tmp_path / "data"))
    assert status == 0
    with running("--config", config, "--host", "0.0.0.0") as gateway:
        assert once(gateway.port, "GET", "/v1/models").status == 401
        with_key = [("Authorization", f"Bearer {secret.strip()}")]
        assert once(gateway.port, "GET", "/v1/models", headers=with_key).status == 200
    assert upstream.call().header("authorization") == "Bearer sk-canary"


@pytest.mark.slow
def test_open_says_that_it_is_meant_so(config: str) -> None:
    with running("--config", config, "--host", "0.0.0.0", "--open") as gateway:
        assert once(gateway.port, "GET", "/v1/models").status == 200
