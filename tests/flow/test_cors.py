"""Browsers' preflights are answered before keys are looked for; only pages of configured origins may read answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.flow.client import Answer, once
from tests.flow.process import Gateway, running
from tests.flow.upstream import Upstream

APP, OTHER = "https://app.example", "https://other.example"
KEY = "sk-web-0123456789abcdef"
BODY = b'{"model":"m","messages":[]}'


def config(upstream: Upstream, cors: Sequence[str]) -> str:
    return (
        f"listen: {{cors: [{', '.join(map(repr, cors))}]}}\n"
        f"upstream: {{base_url: '{upstream.url}', api_key: sk-own}}\n"
        f"keys: {{web: {{secret: '{KEY}', tenant: t}}}}\nmemory: {{data_dir: null}}\n"
    )


def preflight(gateway: Gateway, origin: str) -> Answer:
    asks = [("Origin", origin), ("Access-Control-Request-Method", "POST")]
    headers = [*asks, ("Access-Control-Request-Headers", "authorization,content-type")]
    return once(gateway.port, "OPTIONS", "/v1/chat/completions", b"", headers)


def asked(gateway: Gateway, origin: str, key: str = KEY) -> Answer:
    headers = [("Origin", origin), ("Authorization", f"Bearer {key}")]
    return once(gateway.port, "POST", "/v1/chat/completions", BODY, headers)


@pytest.mark.parametrize("cors", [[APP, "app://notes"], ["*"], []], ids=["listed", "any", "none"])
def test_what_a_page_may_ask_and_read(tmp_path: Path, upstream: Upstream, cors: list[str]) -> None:
    upstream.says(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nAccess-Control-Allow-Origin: https://vendor.example\r\n"
        b"Content-Length: 2\r\n\r\n{}"
    )
    file = tmp_path / "config.yaml"
    file.write_text(config(upstream, cors))
    with running("--config", str(file)) as gateway:
        for origin in (APP, OTHER):
            allowed = "*" if "*" in cors else origin if origin in cors else None
            before = preflight(gateway, origin)
            assert before.status == 204 and before.header("Access-Control-Allow-Origin") == allowed
            wanted = "authorization,content-type" if allowed else None
            assert before.header("Access-Control-Allow-Headers") == wanted
            for answer in (asked(gateway, origin), asked(gateway, origin, "sk-wrong")):
                if cors:
                    assert answer.header("Access-Control-Allow-Origin") == allowed
                exposed = answer.header("Access-Control-Expose-Headers")
                assert (exposed is not None) == (allowed is not None)
                assert ("Origin" in (answer.header("Vary") or "")) == (APP in cors)
            assert "x-understudy-decision-id" in (
                asked(gateway, origin).header("Access-Control-Expose-Headers") or ""
            ) or (allowed is None)


def test_where_nothing_is_configured_a_preflight_is_the_upstreams(upstream: Upstream) -> None:
    with running("--upstream", upstream.url) as gateway:
        preflight(gateway, APP)
    assert upstream.call().method == "OPTIONS"
