"""From an engine's reply to the client, chunk by chunk; what breaks never looks whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from aiohttp import web
from multidict import CIMultiDict

from engines.engine import EngineReply
from gateway.forward import ChunkBuffer
from gateway.relay import relay
from router.finished import Journey, Outcome
from tests.gateway.serving import entry, exchange, get

SSE = {"Content-Type": "text/event-stream"}


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


async def test_an_error_answer_in_a_stream_needs_no_terminal_event() -> None:
    _, body, end = await relayed(reply(b"oops", status=500, headers=SSE), choices=1)
    assert end.outcome is Outcome.UPSTREAM_ERROR and body.endswith(b"0\r\n\r\n")


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
