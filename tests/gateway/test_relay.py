"""From an engine's reply to the client, chunk by chunk; what breaks never looks whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from multidict import CIMultiDict

from engines.engine import EngineReply
from engines.errors import Kind, StreamBroken, TimedOut
from gateway.forward import ChunkBuffer
from gateway.relay import relay
from router.finished import Journey, Outcome
from tests.gateway.serving import entry, exchange, get

SSE = {"Content-Type": "text/event-stream"}
END = b"data: [DONE]\n\n"


def reply(
    *chunks: bytes | Exception, status: int = 200, headers: dict[str, str] | None = None, **more: bool
) -> EngineReply:
    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            await asyncio.sleep(0)
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    return EngineReply(status, CIMultiDict(headers or {}), body(), engine="big", reason="Fine", **more)


async def relayed(
    what: EngineReply,
    *,
    kept: ChunkBuffer | None = None,
    choices: int = 0,
    method: str = "GET",
) -> tuple[bytes, bytes, Journey]:
    """(head, body as framed, how the request ended)."""

    async def handler(request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        return await relay(request, what, journey, kept=kept, choices=choices)

    async with entry(handler) as (port, ended):
        head, _, body = (await exchange(port, get(method=method))).partition(b"\r\n\r\n")
    return head, body, ended[0]


async def test_a_small_answer_of_known_length_leaves_as_it_came() -> None:
    kept = ChunkBuffer(100)
    head, body, end = await relayed(
        reply(b"ab", b"cd", headers={"Content-Length": "4", "X-One": "1"}), kept=kept
    )
    assert head.startswith(b"HTTP/1.1 200 Fine") and b"X-One: 1" in head and body == b"abcd"
    assert b"".join(kept.chunks) == b"abcd"
    assert (end.outcome, end.status, end.engine) == (Outcome.ANSWERED, 200, "big")


async def test_a_stream_leaves_in_its_pieces() -> None:
    kept = ChunkBuffer(100)
    _, body, end = await relayed(reply(b"data: 1\n\n", END, headers=SSE), kept=kept, choices=1)
    assert body == b"9\r\ndata: 1\n\n\r\ne\r\n" + END + b"\r\n0\r\n\r\n"
    assert kept.chunks == [b"data: 1\n\n", END] and end.first_chunk_s is not None


async def test_an_error_of_the_upstream_is_its_own_outcome() -> None:
    _, body, end = await relayed(reply(b"{}", status=429, headers={"Content-Length": "2"}))
    assert body == b"{}" and end.outcome is Outcome.UPSTREAM_ERROR


@pytest.mark.parametrize("failure", [StreamBroken("Cut."), TimedOut("Late.", kind=Kind.TIMEOUT_GAP)])
async def test_a_stream_that_breaks_ends_in_an_error_event_and_no_last_chunk(failure: Exception) -> None:
    _, body, end = await relayed(reply(b"data: 1\n\n", failure, headers=SSE))
    assert b'data: {"error":{"message":"' + str(failure).encode() in body
    assert not body.endswith(b"0\r\n\r\n")
    assert end.outcome is Outcome.FAILED and end.error == str(failure)


async def test_a_download_that_breaks_just_ends() -> None:
    _, body, _ = await relayed(
        reply(
            b"abc", StreamBroken("Cut."), headers={"Content-Length": "999999", "Content-Type": "audio/mpeg"}
        )
    )
    assert body == b"abc"


async def test_a_small_answer_that_breaks_is_an_error_with_a_status() -> None:
    head, body, end = await relayed(reply(b"abc", StreamBroken("Cut."), headers={"Content-Length": "9"}))
    assert head.startswith(b"HTTP/1.1 502") and b"upstream_stream_broken" in body and end.status == 502


@pytest.mark.parametrize(
    ("options", "headers", "broken"),
    [
        ({"choices": 1}, SSE, True),
        ({}, SSE, False),
        ({"choices": 1}, {"Content-Type": "text/plain"}, False),
        ({"choices": 1}, {**SSE, "Content-Encoding": "gzip"}, False),
    ],
)
async def test_a_missing_terminal_event_matters_where_one_is_due(
    options: dict[str, int], headers: dict[str, str], broken: bool
) -> None:
    _, body, end = await relayed(reply(b"data: 1\n\n", headers=headers), **options)
    assert (end.outcome is Outcome.FAILED) is broken
    assert body.endswith(b"0\r\n\r\n") is not broken


async def test_without_a_length_of_its_own_every_stream_must_tell_its_end() -> None:
    _, _, end = await relayed(reply(b"data: 1\n\n", headers=SSE, self_delimiting=False))
    assert end.outcome is Outcome.FAILED
    _, _, end = await relayed(reply(END, headers=SSE, self_delimiting=False))
    assert end.outcome is Outcome.ANSWERED
    _, body, end = await relayed(
        reply(b"word", headers={"Content-Type": "text/plain"}, self_delimiting=False)
    )
    assert end.outcome is Outcome.ANSWERED and b"word" in body, "nothing tells the end of what is no stream"


async def test_an_error_answer_in_a_stream_needs_no_terminal_event() -> None:
    _, body, end = await relayed(reply(b"oops", status=500, headers=SSE), choices=1)
    assert end.outcome is Outcome.UPSTREAM_ERROR and body.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
async def test_answers_without_a_body_have_none(method: str, status: int) -> None:
    head, body, _ = await relayed(reply(status=status, headers={"ETag": "x"}), method=method)
    assert body == b"" and b"ETag: x" in head


async def test_kept_lets_go_past_its_limit() -> None:
    kept = ChunkBuffer(5)
    await relayed(reply(b"abc", b"def", headers=SSE), kept=kept)
    assert kept.size_bytes == 6 and kept.chunks == []


async def test_a_client_that_left_while_we_wrote_is_aborted_and_no_failure() -> None:
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 65536
                await asyncio.sleep(0)
        finally:
            closed.set()

    async def handler(request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        answer = EngineReply(200, CIMultiDict(), endless())
        return await relay(request, answer, journey)

    async with entry(handler) as (port, ended):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get())
        await reader.readexactly(1000)
        writer.transport.abort()
        async with asyncio.timeout(60):
            while not ended:
                await asyncio.sleep(0.01)
    assert ended[0].outcome is Outcome.ABORTED
