"""Bodies that are broken, absurd or made to hurt: a 4xx in OpenAI's shape, bounded memory, and the gateway goes on."""

from __future__ import annotations

import gzip
import zlib

import pytest

from tests.flow.client import Client, once
from tests.flow.kinds import both
from tests.flow.process import Gateway
from tests.flow.upstream import Upstream

CHAT = "/v1/chat/completions"
JSON = [("Content-Type", "application/json")]
GOOD = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
MIB = 2**20


def chat(field: bytes) -> bytes:
    return b'{"model":"m","messages":[{"role":"user","content":"hi"}],' + field + b"}"


BROKEN = {
    "nothing": b"",
    "blanks": b" \r\n\t ",
    "half an object": b'{"model":"m","messages":[',
    "text": b"hello",
    "a list": b"[]",
    "a string": b'"hello"',
    "null": b"null",
    "two objects": GOOD + GOOD,
    "single quotes": b"{'model':'m'}",
    "a trailing comma": b'{"model":"m","messages":[],}',
    "NaN": chat(b'"temperature":NaN'),
    "Infinity": chat(b'"temperature":-Infinity'),
    "a key given twice": chat(b'"model":"other"'),
    "a key given twice further down": b'{"model":"m","messages":[{"role":"user","content":"a","content":"b"}]}',
    "the same key spelt with an escape": chat(rb'"mode\u006c":"other"'),
    "a lone surrogate": b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}',
    "bytes that are not UTF-8": b'{"model":"m","messages":[{"role":"user","content":"\xff\xfe"}]}',
    "UTF-16": GOOD.decode().encode("utf-16"),
    "NUL bytes": b"\0" * 100,
    "10000 levels of lists": b'{"model":"m","messages":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "10000 levels of objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "10000 levels never closed": b"[" * 10_000,
    "a number of 10000 digits": chat(b'"seed":' + b"9" * 10_000),
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
@both()
def test_what_nobody_here_reads_goes_on_as_it_came(gateway: Gateway, upstream: Upstream, body: bytes) -> None:
    with Client(gateway.port) as client:
        client.ask("POST", CHAT, body, JSON)
        assert client.read().body == body
    assert upstream.call().received().body == body


@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings", "/v1/responses", "/v1/messages", "/v1/completions"])
@pytest.mark.parametrize("body", [BROKEN["a lone surrogate"], BROKEN["a list"], b'{"stream":"false"}', b"{"])
def test_with_a_data_folder_it_goes_on_and_streams_too(
    with_data: Gateway, upstream: Upstream, path: str, body: bytes
) -> None:
    upstream.says(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\ndata: [DONE]\n\n")
    answer = once(with_data.port, "POST", path, body, JSON)
    assert answer.status == 200 and answer.body.endswith(b"data: [DONE]\n\n")
    assert upstream.call().received().body == body
    assert not with_data.events("unexpected_error") and not with_data.events("recorder_failed")


def test_a_path_that_names_the_model_needs_its_body(gateway: Gateway, upstream: Upstream) -> None:
    path = "/openai/deployments/dep/chat/completions?api-version=2024-10-21"
    answer = once(gateway.port, "POST", path, BROKEN["a lone surrogate"], JSON)
    assert answer.status == 400 and not upstream.calls


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_what_is_not_one_strict_json_object_is_400(serving: Gateway, upstream: Upstream, body: bytes) -> None:
    with Client(serving.port) as client:
        client.ask("POST", CHAT, body, JSON)
        answer = client.read()
        assert answer.status == 400
        error = answer.error()
        assert error["type"] == "invalid_request_error" and error["code"] in ("invalid_json", "empty_body")
        client.ask("POST", CHAT, GOOD, JSON)
        assert client.read().body == GOOD, "the connection and the gateway go on"
    assert len(upstream.calls) == 1


WRONG_TYPES = {
    "model": b'{"model":7,"messages":[]}',
    "messages": b'{"model":"m"}',
    "messages ": b'{"model":"m","messages":"hi"}',
    "messages[0]": b'{"model":"m","messages":["hi"]}',
    "messages[1]": b'{"model":"m","messages":[{"role":"user","content":"a"},null]}',
    "messages[0].role": b'{"model":"m","messages":[{"content":"a"}]}',
    "messages[0].content": b'{"model":"m","messages":[{"role":"user","content":7}]}',
    "stream": chat(b'"stream":"yes"'),
    "stream_options": chat(b'"stream_options":[]'),
}


@pytest.mark.parametrize("param", WRONG_TYPES)
def test_a_wrong_type_is_400_and_names_the_parameter_if_it_is_read_here(
    gateway: Gateway, serving: Gateway, upstream: Upstream, param: str
) -> None:
    answer = once(serving.port, "POST", CHAT, WRONG_TYPES[param], JSON)
    assert answer.status == 400 and answer.error()["param"] == param.strip()
    assert not upstream.calls
    assert once(gateway.port, "POST", CHAT, WRONG_TYPES[param], JSON).body == WRONG_TYPES[param]


def test_what_nobody_here_knows_is_none_of_our_business(gateway: Gateway, upstream: Upstream) -> None:
    body = chat(
        '"temperature":"hot","new_parameter":{"é":[1e400,123456789012345678901234567890]},"n":-1'.encode()
    ).replace(b"1e400", b"1e-400")
    once(gateway.port, "POST", CHAT, body, JSON)
    assert upstream.call().received().body == body


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/responses", "/v1/files"])
@pytest.mark.parametrize("body", [b"", b"hello", b"[" * 10_000, b'{"a":1,"a":NaN}'])
def test_elsewhere_bodies_are_the_upstreams_business(
    gateway: Gateway, upstream: Upstream, path: str, body: bytes
) -> None:
    assert once(gateway.port, "POST", path, body, JSON).body == body


@pytest.mark.parametrize("field", ["api_base", "base_url", "api_key", "organization", "extra_headers"])
@both()
def test_a_body_cannot_say_where_it_goes(gateway: Gateway, upstream: Upstream, field: str) -> None:
    body = chat(f'"{field}":"http://127.0.0.1:9/v1"'.encode())
    once(
        gateway.port,
        "POST",
        f"{CHAT}?{field}=http://127.0.0.1:9",
        body,
        [*JSON, ("Authorization", "Bearer mine")],
    )
    call = upstream.call().received()
    assert call.body == body and call.header("Authorization") == "Bearer mine"


def test_nothing_a_client_sends_can_name_the_upstream(gateway: Gateway, upstream: Upstream) -> None:
    headers = [
        ("X-Forwarded-Host", "elsewhere.test"),
        ("x-understudy-engine", "http://127.0.0.1:9"),
        ("x-understudy-upstream", "http://127.0.0.1:9"),
        ("X-Understudy-Examples", "0"),
    ]
    once(gateway.port, "POST", CHAT, GOOD, [*JSON, *headers])
    call = upstream.call()
    assert not [name for name, _ in call.headers if name.startswith("x-understudy-")]
    assert call.header("host") == f"127.0.0.1:{upstream.port}"


@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings", "/v1/files"])
@both("small")
def test_a_length_over_the_limit_is_413_before_it_is_sent(
    small: Gateway, upstream: Upstream, path: str
) -> None:
    with Client(small.port) as client:
        client.send(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n".encode())
        answer = client.read()
        assert answer.status == 413
        error = answer.error()
        assert error["code"] == "request_too_large" and "limit of " in error["message"]
    assert not upstream.calls


@pytest.mark.parametrize("path", [CHAT, "/v1/files"])
@both("small")
def test_chunks_over_the_limit_are_413(small: Gateway, upstream: Upstream, path: str) -> None:
    with Client(small.port) as client:
        client.send(f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(20):
            client.send_what_is_taken(b"1000\r\n" + b" " * 4096 + b"\r\n")
        answer = client.read()
        assert answer.status == 413 and answer.error()["code"] == "request_too_large"
    assert not any(call.received().whole for call in upstream.calls)
    assert once(small.port, "GET", "/v1/models").status == 200


def test_a_body_within_the_upload_limit_may_exceed_that_for_json(small: Gateway, upstream: Upstream) -> None:
    body = b"x" * 40_000
    answer = once(small.port, "POST", "/v1/files", body)
    assert answer.status == 200 and answer.body == body


@both()
def test_a_gzip_bomb_is_413_and_costs_little_memory(gateway: Gateway, upstream: Upstream) -> None:
    bomb = gzip.compress(b" " * (256 * MIB), 9)
    once(gateway.port, "GET", "/healthz")
    gateway.forget_peak()
    before = gateway.memory_bytes()
    answer = once(gateway.port, "POST", CHAT, bomb, [*JSON, ("Content-Encoding", "gzip")])
    assert answer.status == 413 and answer.error()["code"] == "request_too_large"
    assert gateway.peak_bytes() - before < 128 * MIB
    assert not upstream.calls


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", b"not gzip"),
        ("gzip", gzip.compress(GOOD, mtime=0)[:-12]),
        ("deflate", b"not deflate"),
        ("gzip", b""),
        ("gzip", gzip.compress(b"[" * 10_000, mtime=0)),
    ],
)
def test_a_compressed_body_that_is_broken_is_400_if_it_is_read_here(
    gateway: Gateway, serving: Gateway, upstream: Upstream, encoding: str, body: bytes
) -> None:
    answer = once(serving.port, "POST", CHAT, body, [*JSON, ("Content-Encoding", encoding)])
    assert answer.status == 400 and answer.error()["type"] == "invalid_request_error"
    assert not upstream.calls
    once(gateway.port, "POST", CHAT, body, [*JSON, ("Content-Encoding", encoding)])
    assert upstream.call().received().body == body


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress], ids=["gzip", "deflate"])
def test_a_compressed_chat_body_goes_on_as_it_came(
    gateway: Gateway, upstream: Upstream, compress: object
) -> None:
    assert callable(compress)
    body = compress(GOOD)
    encoding = "gzip" if compress is gzip.compress else "deflate"
    once(gateway.port, "POST", CHAT, body, [*JSON, ("Content-Encoding", encoding)])
    call = upstream.call().received()
    assert call.body == body and call.header("content-encoding") == encoding


@both()
def test_a_body_of_millions_of_values_does_not_eat_the_memory(gateway: Gateway, upstream: Upstream) -> None:
    """Thirty megabytes of `{}` would become more than a gigabyte of objects."""
    body = chat(b'"x":[' + b"{}," * (10 * MIB) + b"{}]")
    once(gateway.port, "GET", "/healthz")
    gateway.forget_peak()
    before = gateway.memory_bytes()
    answer = once(gateway.port, "POST", CHAT, body, JSON)
    assert answer.status == 413 and "values" in answer.error()["message"]
    assert gateway.peak_bytes() - before < 256 * MIB
    assert once(gateway.port, "GET", "/healthz").status == 200
