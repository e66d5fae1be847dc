"""Requests to an upstream elsewhere go through the proxy of the environment or of the configuration, over real sockets."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

from tests.flow.client import once
from tests.flow.process import running
from tests.flow.upstream import Upstream

BODY = b'{"model":"m","messages":[]}'
ELSEWHERE = "http://llm.internal.example/v1"


def test_the_proxy_of_the_environment_is_asked_for_a_host_elsewhere(upstream: Upstream) -> None:
    proxy = f"http://proxy-user:canary-pass@127.0.0.1:{upstream.url.rpartition(':')[2].partition('/')[0]}"
    variables = {"HTTP_PROXY": proxy, "http_proxy": proxy, "NO_PROXY": "", "no_proxy": ""}
    with running("--upstream", ELSEWHERE, environment=variables) as gateway:
        assert once(gateway.port, "POST", "/v1/chat/completions", BODY).status == 200
        assert "canary" not in gateway.log()
    call = upstream.call()
    assert (
        call.target == f"{ELSEWHERE}/chat/completions".encode()
        and call.header("Host") == "llm.internal.example"
    )
    assert call.header("Proxy-Authorization") == f"Basic {b64encode(b'proxy-user:canary-pass').decode()}"


def test_an_engine_has_a_proxy_of_its_own_and_this_machine_none(tmp_path: Path, upstream: Upstream) -> None:
    proxy = upstream.url.removesuffix("/v1")
    file = tmp_path / "config.yaml"
    file.write_text(
        f"engines:\n"
        f"  far: {{base_url: '{ELSEWHERE}', api_key: none, proxy: '{proxy}'}}\n"
        f"  near: {{base_url: '{upstream.url}', api_key: none}}\n"
        "models: {far: {engines: [far]}, near: {engines: [near]}}\n"
    )
    nobody = {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    targets = []
    with running("--config", str(file), environment=nobody) as gateway:
        for model in (b"far", b"near"):
            once(gateway.port, "POST", "/v1/chat/completions", BODY.replace(b'"m"', b'"%s"' % model))
            targets.append(upstream.call(len(targets)).target)
    assert targets == [f"{ELSEWHERE}/chat/completions".encode(), b"/v1/chat/completions"]


def test_a_proxy_that_is_not_there_is_told_of_without_its_credential() -> None:
    proxy = "http://proxy-user:canary-pass@127.0.0.1:9"
    with running("--upstream", ELSEWHERE, environment={"HTTP_PROXY": proxy, "http_proxy": proxy}) as gateway:
        answer = once(gateway.port, "POST", "/v1/chat/completions", BODY)
        assert answer.status == 502 and "proxy" in answer.error()["message"]
        assert "canary" not in gateway.log() + str(answer.body)
