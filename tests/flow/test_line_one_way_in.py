"""A model of `models` is answered by its engines however the request is spelled: nothing leads around the pipeline."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import brotli
import pytest
from backports import zstd
from yarl import URL

from tests.flow.line import Line, Upstream, line, upstream

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello"}]}).encode()
SPELLINGS = [
    "/v1//chat/completions",
    "/v1/chat//completions",
    "/v1/chat/completions/",
    "/v1/chat/completions//",
    "/v1/chat/%63ompletions",
    "/v1/%63%68at/completions",
    "/v1/chat%2Fcompletions",
    "/v1/chat%5ccompletions",
    "/v1/chat/%2563ompletions",
    "/v1/Chat/Completions",
    "/v1/chat/completions;v=1",
]


@pytest.fixture
async def engine() -> AsyncIterator[Upstream]:
    async with upstream() as running:
        yield running


@pytest.fixture
async def default() -> AsyncIterator[Upstream]:
    async with upstream() as running:
        yield running


@pytest.fixture
async def gate(engine: Upstream, default: Upstream) -> AsyncIterator[Line]:
    config = {
        "engines": {"e": {"base_url": engine.url}},
        "models": {"m": {"engines": ["e"]}},
        "upstream": {"base_url": default.url, "api_key": "sk-operator"},
    }
    async with line(config) as running:
        yield running


async def post(gate: Line, target: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    url = URL(gate.url.removesuffix("/v1") + target, encoded=True)
    async with gate.session.post(url, data=body, headers=headers) as response:
        return response.status, json.loads(await response.read())


@pytest.mark.parametrize("target", SPELLINGS)
async def test_any_spelling_of_the_path_reaches_the_engine_of_the_model(
    gate: Line, engine: Upstream, default: Upstream, target: str
) -> None:
    status, _ = await post(gate, target + "?a=%20", BODY, {"Content-Type": "application/json"})
    assert status == 200
    assert [asked.path for asked in engine.asked] == ["/v1/chat/completions?a=%20"]
    assert not default.asked


@pytest.mark.parametrize(
    "target", ["/v1/./chat/completions", "/v1/x/../chat/completions", "/v1/%2e/chat/completions"]
)
async def test_dot_segments_are_400_and_reach_nobody(
    gate: Line, engine: Upstream, default: Upstream, target: str
) -> None:
    status, answer = await post(gate, target, BODY, {"Content-Type": "application/json"})
    assert status == 400 and answer["error"]["code"] == "invalid_path"
    assert not engine.asked and not default.asked


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"Content-Type": "text/plain"}, "text/plain"),
        ({"Content-Type": "application/vnd.api+json"}, "application/vnd.api+json"),
        ({"Content-Type": "multipart/form-data; boundary=x"}, "multipart/form-data"),
        ({"Content-Type": "application/json", "Content-Encoding": "compress"}, "compress"),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip, br"}, "gzip, br"),
    ],
)
async def test_a_body_that_cannot_be_read_is_415_and_reaches_nobody(
    gate: Line, engine: Upstream, default: Upstream, headers: dict[str, str], named: str
) -> None:
    status, answer = await post(gate, "/v1/chat/completions", BODY, headers)
    error = answer["error"]
    assert status == 415 and error["code"] == "unsupported_media_type" and named in error["message"]
    assert error["type"] == "invalid_request_error"
    assert not engine.asked and not default.asked


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("zstd", zstd.compress),
        ("br", brotli.compress),
    ],
)
async def test_encodings_that_can_be_read_reach_the_engine(
    gate: Line, engine: Upstream, default: Upstream, encoding: str, pack: Any
) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8", "Content-Encoding": encoding}
    status, _ = await post(gate, "/v1/chat/completions", pack(BODY), headers)
    assert status == 200 and len(engine.asked) == 1 and not default.asked


@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": "text/plain"}, {"Content-Type": "application/json", "Content-Encoding": "snappy"}],
)
async def test_without_models_any_content_type_and_encoding_passes(
    default: Upstream, headers: dict[str, str], tmp_path: Path
) -> None:
    memory = {"data_dir": str(tmp_path), "examples": {"enabled": False}}
    async with line({"upstream": {"base_url": default.url}, "memory": memory}) as gate:
        status, _ = await post(gate, "/v1/chat/completions/", BODY, headers)
    assert status == 200
    assert [asked.path for asked in default.asked] == ["/v1/chat/completions/"]


async def test_examples_are_the_gateways_own_in_any_spelling(default: Upstream, tmp_path: Path) -> None:
    config = {
        "upstream": {"base_url": default.url},
        "memory": {"data_dir": str(tmp_path), "examples": {"enabled": False}},
    }
    async with line(config) as gate:
        for target in ("/v1//examples", "/v1/%65xamples", "/v1/examples/"):
            status, answer = await post(gate, target, b"{}", {"Content-Type": "application/json"})
            assert status == 404 and answer["error"]["code"] == "examples_disabled"
    assert not default.asked
