"""From a body's bytes to a chat request, strictly."""

from __future__ import annotations

import gzip
import json
import zlib

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from engines.chat_json import parse_object, read_chat_request
from engines.errors import RequestError
from gateway.wire import is_json, read_body, read_json
from router.finished import Journey
from tests.gateway.serving import entry, exchange, get

GOOD = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=5), values, max_size=5))
def test_every_json_object_is_read_as_what_it_is(fields: dict[str, object]) -> None:
    assert parse_object(json.dumps(fields).encode()) == fields


def test_integers_beyond_64_bits_survive() -> None:
    assert parse_object(b'{"seed":123456789012345678901234567890}')["seed"] == 123456789012345678901234567890


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_but_a_request_error(body: bytes) -> None:
    try:
        assert isinstance(parse_object(body), dict)
    except RequestError as error:
        assert error.status == 400 and error.code in ("invalid_json", "empty_body")


@pytest.mark.parametrize("depth", [100, 900, 1100, 10_000, 1_000_000])
def test_any_depth_is_read_or_refused(depth: int) -> None:
    body = b'{"a":' + b"[" * depth + b"]" * depth + b"}"
    try:
        parse_object(body)
    except RequestError as error:
        assert error.code in ("invalid_json", "request_too_large") and depth > 500


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"a":1,"a":2}', "'a' appears twice"),
        (b'{"x":{"b":1,"c":2,"b":3}}', "'b' appears twice"),
        (b'{"a":NaN}', "not valid JSON"),
        (b'"text"', "must be a JSON object"),
        (b"  ", "is empty"),
        (b'{"a":' + b"9" * 5000 + b"}", "infinity"),
    ],
)
def test_what_is_wrong_is_said(body: bytes, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        parse_object(body)


def test_too_many_values_are_refused_before_they_are_parsed() -> None:
    with pytest.raises(RequestError, match="more than 1000000 values") as refused:
        parse_object(b"[" + b"0," * 1_000_001 + b"0]")
    assert refused.value.status == 413


def test_long_text_is_not_many_values() -> None:
    assert parse_object(json.dumps({"a": "word " * 1_000_000}).encode())["a"].startswith("word")


def test_a_chat_request_is_a_view_of_its_bytes() -> None:
    fields = {**GOOD, "stream": True, "stream_options": {"include_usage": True}, "new": [1]}
    body = json.dumps(fields).encode()
    chat = read_chat_request(body, fields)
    assert chat.body is body and chat.fields is fields
    assert (chat.model, chat.stream, chat.include_usage) == ("m", True, True)
    assert chat.messages == GOOD["messages"]


@pytest.mark.parametrize(
    "extra", [{}, {"stream": None}, {"stream": False}, {"stream_options": None}, {"messages": []},
              {"messages": [{"role": "tool", "content": None}]},
              {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}]
)  # fmt: skip
def test_what_is_allowed(extra: dict[str, object]) -> None:
    chat = read_chat_request(b"", {**GOOD, **extra})
    assert chat.stream is False and chat.include_usage is False


@pytest.mark.parametrize(
    ("extra", "param"),
    [
        ({"model": 7}, "model"),
        ({"model": None}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": [7]}, "messages[0]"),
        ({"messages": [{"content": "a"}]}, "messages[0].role"),
        ({"messages": [GOOD["messages"][0], {"role": "user", "content": {}}]}, "messages[1].content"),
        ({"stream": 1}, "stream"),
        ({"stream": "true"}, "stream"),
        ({"stream_options": []}, "stream_options"),
    ],
)
def test_a_wrong_type_names_its_parameter(extra: dict[str, object], param: str) -> None:
    with pytest.raises(RequestError, match="must be") as refused:
        read_chat_request(b"", {**GOOD, **extra})
    assert refused.value.param == param and refused.value.code == "invalid_type"


async def reads(request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
    body = await read_body(request, 1000)
    fields = await read_json(request, body, 1000) if is_json(request) else {"json": False}
    return web.json_response(fields)


@pytest.mark.parametrize(
    ("encoding", "body", "answer"),
    [
        ("", b'{"a":1}', b'{"a": 1}'),
        ("identity", b'{"a":1}', b'{"a": 1}'),
        ("gzip", gzip.compress(b'{"a":1}', mtime=0), b'{"a": 1}'),
        ("X-GZIP", gzip.compress(b'{"a":1}', mtime=0), b'{"a": 1}'),
        ("deflate", zlib.compress(b'{"a":1}'), b'{"a": 1}'),
        ("compress", b"whatever", b"null"),
        ("gzip, gzip", b"whatever", b"null"),
        ("br", b"no", b"not valid br"),
        ("zstd", b"no", b"not valid zstd"),
        ("gzip", b"no", b"not valid gzip"),
        ("gzip", gzip.compress(b'{"a":1}', mtime=0)[:-4], b"ends too early"),
        ("gzip", gzip.compress(b" " * 1_000_000, mtime=0), b"over this gateway's limit of 1000 bytes"),
        ("", b" " * 1001, b"over this gateway's limit of 1000 bytes"),
    ],
)
async def test_a_body_is_read_through_its_encoding_within_its_limit(
    encoding: str, body: bytes, answer: bytes
) -> None:
    headers = [f"Content-Encoding: {encoding}"] if encoding else []
    async with entry(reads) as (port, _):
        assert answer in await exchange(port, get("/x", *headers, method="POST", body=body))


@pytest.mark.parametrize(
    ("content_type", "json_"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("text/plain", False),
        ("multipart/form-data; boundary=x", False),
    ],
)
async def test_what_says_it_is_not_json_is_not_read_as_such(content_type: str, json_: bool) -> None:
    async with entry(reads) as (port, _):
        answer = await exchange(
            port, get("/x", f"Content-Type: {content_type}", method="POST", body=b'{"a":1}')
        )
    assert answer.endswith(b'{"a": 1}' if json_ else b'{"json": false}')
