"""A client's key reaches the place it was meant for, and no other."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.flow.client import once
from tests.flow.line import Upstream, line, upstream
from tests.flow.process import ran, running
from tests.flow.upstream import Call
from tests.flow.upstream import Upstream as Raw

CREDENTIALS = {
    "Authorization": "Bearer sk-canary",
    "api-key": "sk-canary",
    "x-api-key": "sk-canary",
    "x-goog-api-key": "sk-canary",
    "Ocp-Apim-Subscription-Key": "sk-canary",
    "Cookie": "session=sk-canary",
}
PATH = "/chat/completions?api-version=1&key=sk-canary&a=%20"
BODY = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture
async def engine() -> AsyncIterator[Upstream]:
    async with upstream() as running:
        yield running


@pytest.fixture
async def default() -> AsyncIterator[Upstream]:
    async with upstream() as running:
        yield running


async def asked(config: dict[str, Any], engine: Upstream) -> tuple[str, dict[str, str]]:
    """(path, headers that came) of a request with every kind of credential."""
    async with line({"models": {"m": {"engines": ["e"]}}, **config}) as gate:
        assert (await gate.post(PATH, BODY, CREDENTIALS)).status == 200
    (one,) = engine.asked
    return one.path, {name: one.headers[name] for name in CREDENTIALS if name in one.headers}


@pytest.mark.parametrize("kind", ["openai", "vllm"])
async def test_an_engine_elsewhere_on_this_machine_gets_no_credential(
    engine: Upstream, default: Upstream, kind: str
) -> None:
    engines = {"e": {"kind": kind, "base_url": engine.url}}
    config = {"engines": engines, "upstream": {"base_url": default.url}}
    async with line({"models": {"m": {"engines": ["e"]}}, **config}) as gate:
        assert (await gate.post(PATH, BODY, CREDENTIALS)).status == 200
        assert (await gate.post("/embeddings?key=sk-canary", {"input": "x"}, CREDENTIALS)).status == 200
    assert "canary" not in repr([(one.path, dict(one.headers)) for one in engine.asked])
    assert [one.path for one in engine.asked if "chat" in one.path] == [
        "/v1/chat/completions?api-version=1&a=%20"
    ]
    (other,) = default.asked
    assert other.path == "/v1/embeddings?key=sk-canary", "the default upstream gets them as they came"
    assert CREDENTIALS.items() <= dict(other.headers).items()


async def test_an_engine_at_the_upstreams_origin_gets_the_clients_key(engine: Upstream) -> None:
    config = {"engines": {"e": {"base_url": engine.url}}, "upstream": {"base_url": f"{engine.url}/other"}}
    path, headers = await asked(config, engine)
    assert headers == CREDENTIALS and path == "/v1" + PATH


async def test_an_engine_that_says_so_gets_the_clients_key(engine: Upstream) -> None:
    said = {"base_url": engine.url, "advanced": {"forwards_client_key": True}}
    path, headers = await asked({"engines": {"e": said}}, engine)
    assert headers == CREDENTIALS and path == "/v1" + PATH


async def test_an_engine_with_a_key_gets_that_one_alone(engine: Upstream) -> None:
    said = {"base_url": engine.url, "api_key": "sk-own", "advanced": {"forwards_client_key": True}}
    path, headers = await asked({"engines": {"e": said}, "upstream": {"base_url": engine.url}}, engine)
    assert headers == {"Authorization": "Bearer sk-own"} and "canary" not in path


CUSTOMER = {"x-customer": "canary-customer"}
OWN_KEYS: dict[str, dict[str, Any]] = {
    "a key": {"api_key": "sk-own"},
    "a credential among its headers": {"advanced": {"headers": {"api-key": "sk-own"}}},
    "none needed": {"api_key": "none"},
}


@pytest.mark.parametrize("kind", ["openai", "vllm"])
@pytest.mark.parametrize("own", OWN_KEYS.values(), ids=OWN_KEYS)
async def test_a_header_that_tells_clients_apart_goes_no_further_than_their_keys(
    engine: Upstream, default: Upstream, own: dict[str, Any], kind: str
) -> None:
    config = {
        "listen": {"tenant_headers": ["X-Customer"]},
        "engines": {"e": {"kind": kind, "base_url": engine.url} | own},
        "models": {"m": {"engines": ["e"]}},
        "upstream": {"base_url": default.url},
    }
    async with line(config) as gate:
        assert (await gate.post("/chat/completions", BODY, CREDENTIALS | CUSTOMER)).status == 200
        assert (await gate.post("/embeddings", {"input": "x"}, CREDENTIALS | CUSTOMER)).status == 200
    assert "canary" not in repr([dict(one.headers) for one in engine.asked])
    (other,) = default.asked
    assert (CREDENTIALS | CUSTOMER).items() <= dict(other.headers).items()


async def test_an_upstream_with_a_key_learns_nothing_of_who_asks(default: Upstream) -> None:
    config = {
        "listen": {"tenant_headers": ["x-customer"]},
        "upstream": {"base_url": default.url, "api_key": "sk-own"},
    }
    async with line(config) as gate:
        for path, body in (("/chat/completions", BODY), ("/embeddings", {"input": "x"}), ("/files", {})):
            await gate.post(path, body, CREDENTIALS | CUSTOMER)
    assert len(default.asked) == 3
    for one in default.asked:
        assert one.headers["Authorization"] == "Bearer sk-own" and "canary" not in repr(dict(one.headers))


async def test_an_engine_with_a_credential_among_its_headers_gets_that_one_alone(engine: Upstream) -> None:
    said = {"base_url": engine.url, "advanced": {"headers": {"api-key": "sk-own"}}}
    _, headers = await asked({"engines": {"e": said}}, engine)
    assert headers == {"api-key": "sk-own"}


async def test_an_engine_that_needs_none_gets_none(engine: Upstream) -> None:
    said = {"base_url": engine.url, "api_key": "none"}
    _, headers = await asked({"engines": {"e": said}, "upstream": {"base_url": engine.url}}, engine)
    assert headers == {}


SMALL, LARGE = "http://10.1.2.3:8000/v1=tiny", "https://api.openai.com/v1=gpt-4o"


def test_a_small_engine_elsewhere_without_a_key_is_refused_with_the_remedy() -> None:
    status, _, said = ran("serve", "--port", "0", "--small", SMALL, "--large", LARGE)
    assert status == 2
    for word in ("engines.small", "https://api.openai.com/v1", "10.1.2.3", "none", "--small-key"):
        assert word in said


ELSEWHERE = {
    "without an upstream": "",
    "with another one": "upstream: {base_url: 'https://api.openai.com/v1'}\n",
    "on another port of it": "upstream: {base_url: 'http://10.1.2.3:8001/v1'}\n",
}


@pytest.mark.parametrize("more", ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_file_that_would_send_the_clients_key_elsewhere_is_refused(more: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        f"{more}engines: {{e: {{base_url: 'http://10.1.2.3:8000/v1'}}}}\nmodels: {{m: {{engines: [e]}}}}\n"
    )
    status, _, said = ran("check", str(config))
    assert status == 2
    for word in ("engines.e.api_key", "`none`", "engines.e.advanced.forwards_client_key"):
        assert word in said


@pytest.mark.slow
def test_small_and_large_stay_transparent_and_the_key_goes_to_the_large_one(
    upstream: Raw, tmp_path: Path
) -> None:
    """As the README prints it: what `models` does not name goes to the large engine's base URL."""
    small = Raw()

    def answer(call: Call) -> None:
        call.answer(json.dumps({"at": call.target.decode()}).encode())

    with ExitStack() as stack:
        stack.callback(small.close)
        small.plays(answer)
        upstream.plays(answer)
        options = (
            "--data",
            str(tmp_path),
            "--small",
            f"{small.url}=tiny",
            "--large",
            f"{upstream.url}=gpt-4o",
        )
        gateway = stack.enter_context(running(*options))
        key = [("Authorization", "Bearer sk-canary"), ("Content-Type", "application/json")]
        for path in ("/v1/responses", "/v1/completions", "/v1/embeddings", "/v1/files"):
            assert once(gateway.port, "POST", path, b"{}", key).status == 200
        other = json.dumps(BODY | {"model": "gpt-4o-mini"}).encode()
        assert once(gateway.port, "POST", "/v1/chat/completions", other, key).status == 200
        for name in ("small", "large"):
            mine = json.dumps(BODY | {"model": "gpt-4o"}).encode()
            once(gateway.port, "POST", "/v1/chat/completions", mine, [*key, ("x-understudy-engine", name)])
        assert len(upstream.calls) == 6 and len(small.calls) == 1
        assert all(call.header("authorization") == "Bearer sk-canary" for call in upstream.calls)
        assert b"canary" not in small.call().head


@pytest.mark.slow
def test_a_small_key_is_sent_to_the_small_engine(upstream: Raw, tmp_path: Path) -> None:
    options = (
        "--small",
        f"{upstream.url}=tiny",
        "--large",
        "http://127.0.0.1:9/v1=gpt-4o",
        "--data",
        str(tmp_path),
    )
    with running(*options, environment={"UNDERSTUDY_SMALL_KEY": "sk-small"}) as gateway:
        body = json.dumps(BODY | {"model": "gpt-4o"}).encode()
        headers = [("Authorization", "Bearer sk-canary"), ("Content-Type", "application/json")]
        once(gateway.port, "POST", "/v1/chat/completions", body, [*headers, ("x-understudy-engine", "small")])
    assert upstream.call().values("authorization") == ["Bearer sk-small"]


def test_serve_alone_says_which_options_there_are() -> None:
    status, _, said = ran("serve")
    assert status == 2
    for word in ("--upstream URL", "--small URL=MODEL", "--large URL=MODEL", "--config FILE", "serve --help"):
        assert word in said
