"""The mock upstream, asked with a general HTTP client, as any gateway would."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


async def post(url: str, body: Any, path: str = "/v1/chat/completions", **headers: str) -> tuple[int, bytes]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + path, json=body, headers=headers) as answer,
    ):
        return answer.status, await answer.read()


async def test_a_whole_answer_is_about_a_kibibyte_and_counts_its_tokens(
    serve_mock: Callable[..., Any],
) -> None:
    status, body = await post(serve_mock().url, CHAT)
    answer = json.loads(body)
    assert status == 200 and 800 < len(body) < 1200
    assert answer["model"] == "m" and answer["usage"]["completion_tokens"] == 128
    assert len(answer["choices"][0]["message"]["content"].split()) == 128


async def test_a_stream_has_a_role_tokens_a_finish_usage_and_done(mock: Any) -> None:
    body = CHAT | {"stream": True, "max_tokens": 3, "stream_options": {"include_usage": True}}
    for headers in ({}, {"x-mock-token-ms": "2"}):
        _, data = await post(mock.url, body, **headers)
        events = [event.removeprefix(b"data: ") for event in data.split(b"\n\n") if event]
        assert events.pop() == b"[DONE]"
        chunks = [json.loads(event) for event in events]
        assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
        assert [chunk["choices"][0]["delta"].get("content") for chunk in chunks[1:4]] == [
            " the",
            " lead",
            " has",
        ]
        assert chunks[4]["choices"][0]["finish_reason"] == "stop"
        assert chunks[5]["usage"]["completion_tokens"] == 3


async def test_models_embeddings_completions_and_unknown_paths(mock: Any) -> None:
    models = await asyncio.to_thread(mock.get, "/v1/models")
    assert [card["id"] for card in models["data"]] == ["mock-small", "mock-large"]
    _, body = await post(mock.url, {"model": "e", "input": ["a", "b", "a"]}, "/v1/embeddings")
    a, b, again = (item["embedding"] for item in json.loads(body)["data"])
    assert a == again != b
    _, body = await post(mock.url, {"model": "m", "prompt": "hi"}, "/v1/completions")
    assert json.loads(body)["choices"][0]["text"]
    assert (await post(mock.url, {}, "/v1/nothing"))[0] == 404
    assert (await post(mock.url, [1]))[0] == 400
    assert (await post(mock.url, CHAT, **{"x-mock-fault": "melt"}))[0] == 400


async def test_headers_steer_one_answer(mock: Any) -> None:
    _, body = await post(mock.url, CHAT, **{"x-mock-tokens": "5"})
    assert json.loads(body)["usage"]["completion_tokens"] == 5
    assert (await post(mock.url, CHAT, **{"x-mock-fault": "http=418"}))[0] == 418
    with pytest.raises(aiohttp.ClientError):
        await post(mock.url, CHAT, **{"x-mock-fault": "reset"})
    with pytest.raises(aiohttp.ClientPayloadError):
        await post(mock.url, CHAT | {"stream": True}, **{"x-mock-fault": "cut=2"})
    start = time.monotonic()
    await post(mock.url, CHAT, **{"x-mock-ttft-ms": "20", "x-mock-fault": "slow=3"})
    assert time.monotonic() - start >= 0.06


async def test_capacity_makes_requests_wait_their_turn_and_a_full_queue_refuses(
    serve_mock: Callable[..., Any],
) -> None:
    mock = serve_mock("--capacity", "2", "--max-queue", "3", "--ttft-ms", "100")
    found = await asyncio.gather(*(post(mock.url, CHAT) for _ in range(7)))
    assert sorted(status for status, _ in found) == [200] * 5 + [429] * 2
    seen = mock.get("/mock/counters")
    assert (seen["queued_max"], seen["rejected"], seen["in_flight"], seen["answered"]) == (3, 2, 0, 7)
    # No sooner. How much later is the machine's affair, and so is how long after the first the others came.
    assert min(mock.get("/mock/truth")["latency_s"]) >= 0.095


async def test_a_client_that_leaves_frees_its_slot(serve_mock: Callable[..., Any]) -> None:
    mock = serve_mock("--capacity", "1")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await post(mock.url, CHAT, **{"x-mock-fault": "hang"})
    assert (await post(mock.url, CHAT))[0] == 200
    assert mock.get("/mock/counters")["client_gone"] == 1


def raw(url: str, data: bytes, pieces: int = 1) -> bytes:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as sock:
        size = -(-len(data) // pieces)
        for at in range(0, len(data), size):
            sock.sendall(data[at : at + size])
            time.sleep(0.002)
        sock.shutdown(socket.SHUT_WR)
        found = b""
        while more := sock.recv(65536):
            found += more
    return found


def request(body: bytes, head: str = "") -> bytes:
    return (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode()
        + body
    )


@pytest.mark.parametrize("pieces", [1, 7, 40])
def test_pipelined_requests_are_answered_in_order_however_they_are_cut(mock: Any, pieces: int) -> None:
    data = b"".join(request(json.dumps(CHAT | {"model": f"m{k}"}).encode()) for k in range(5))
    found = raw(mock.url, data, pieces)
    assert [part[: part.index(b'"')] for part in found.split(b'"model":"')[1:]] == [
        b"m0",
        b"m1",
        b"m2",
        b"m3",
        b"m4",
    ]


def test_chunked_bodies_and_expect_continue_are_understood(mock: Any) -> None:
    body = json.dumps(CHAT).encode()
    wire = b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    wire += b"%x\r\n%s\r\n" % (5, body[:5]) + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body) - 5, body[5:])
    assert b"200 OK" in raw(mock.url, wire, 3)
    host, port = mock.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as sock:
        sock.sendall(request(body, "Expect: 100-continue\r\n").removesuffix(body))
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(body)
        assert sock.recv(100).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    "data", [b"HELLO\r\n\r\n", b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n", b"GET / " + b"x" * 70_000]
)
def test_what_is_no_request_is_refused_and_the_server_lives(mock: Any, data: bytes) -> None:
    assert b" 400 " in raw(mock.url, data) or b" 431 " in raw(mock.url, data)
    assert mock.get("/health") == {"status": "ok"}


def test_reset_forgets_what_was_counted(serve_mock: Callable[..., Any]) -> None:
    mock = serve_mock()
    raw(mock.url, request(json.dumps(CHAT).encode()))
    assert mock.get("/mock/counters")["requests"] == 1
    raw(mock.url, b"POST /mock/reset HTTP/1.1\r\n\r\n")
    assert mock.get("/mock/counters")["requests"] == 0


def test_a_port_that_is_taken_is_named(load: Callable[..., Any], mock: Any) -> None:
    port = mock.url.rpartition(":")[2]
    result = load("serve-mock", "--port", port)
    assert result.returncode == 1 and f"cannot listen on 127.0.0.1:{port}" in result.stderr
