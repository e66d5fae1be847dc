"""Request header values in any encoding: the upstream gets the bytes that came, and nothing here breaks by them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.flow.client import once
from tests.flow.process import Gateway, running
from tests.flow.upstream import Upstream

CHAT = "/v1/chat/completions"
BODY = b'{"model":"m","temperature":0,"messages":[{"role":"user","content":"hi"}]}'
ANSWER = (
    b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop",'
    b'"message":{"role":"assistant","content":"Hello."}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}'
)
KEY = "sk-web-0123456789abcdef"
NAMES = (
    "X-Title",
    "User-Agent",
    "X-Request-Id",
    "traceparent",
    "OpenAI-Organization",
    "X-Stainless-Timeout",
    "Referer",
)
VALUES = {"latin-1": "caf\xe9", "utf-8": "café".encode().decode("latin-1"), "any bytes": "\xff\xfe\x80"}


@pytest.fixture(scope="module")
def keeping(_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with keys, a served model, memory and a request log; some headers make requests different."""
    folder = tmp_path_factory.mktemp("keeping")
    (folder / "config.yaml").write_text(
        f"listen: {{grace_s: 1, tenant_headers: [X-Tenant]}}\n"
        f"engines: {{e: {{base_url: {_upstream.url}, api_key: none, price: {{input_usd_per_mtok: 1}}}}}}\n"
        f"models: {{m: {{engines: [e]}}}}\nmemory: {{data_dir: {folder / 'data'}, examples: {{enabled: false}}}}\n"
        f"admin: {{enabled: false}}\nkeys: {{web: {{secret: {KEY}, tenant: acme}}}}\n"
    )
    with running("--config", str(folder / "config.yaml")) as process:
        yield process


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_the_upstream_gets_the_bytes_that_came(
    gateway: Gateway, upstream: Upstream, name: str, value: str
) -> None:
    answer = once(gateway.port, "POST", CHAT, BODY, [("Content-Type", "application/json"), (name, value)])
    assert answer.status == 200 and answer.body == BODY
    sent = f"{name}: {value}".encode("latin-1")
    assert sent.lower() in upstream.call().received().head.lower()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_keys_memory_and_log_take_them(keeping: Gateway, upstream: Upstream, name: str, value: str) -> None:
    upstream.says(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
        % (len(ANSWER), ANSWER)
    )
    headers = [
        ("Content-Type", "application/json"),
        ("Authorization", f"Bearer {KEY}"),
        (name, value),
        ("X-Tenant", value),
    ]
    body = BODY.replace(b"hi", f"{name} {value.encode().hex()}".encode())
    answer = once(keeping.port, "POST", CHAT, body, headers)
    assert answer.status == 200 and b"Hello." in answer.body, answer.body
    if name != "OpenAI-Organization":
        # The account of whoever has a key of their own: it does not go with the gateway's.
        sent = f"{name}: {value}".encode("latin-1")
        assert sent.lower() in upstream.call().received().head.lower()
    assert not keeping.events("recorder_failed") and not keeping.events("unexpected_error")


def test_a_credential_that_is_no_text_is_refused(keeping: Gateway, upstream: Upstream) -> None:
    answer = once(keeping.port, "POST", CHAT, BODY, [("Authorization", "Bearer sk-caf\xe9")])
    assert answer.status in (400, 401) and not upstream.calls
