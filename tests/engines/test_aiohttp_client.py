"""What aiohttp's client asks comes to the same answers and failures as what the client for plain requests asks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from multidict import CIMultiDict
from yarl import URL

from engines.aiohttp_client import AiohttpAnswer, AiohttpClient
from engines.exchanges import (
    Cut,
    Disconnected,
    Failure,
    Invalid,
    NotConnected,
    ProxyRefused,
    ReadTimeout,
    Unanswered,
)
from tests.engines.asking import closed_port
from tests.flow.upstream import Call, Upstream

PATIENCE_S = 60.0


@asynccontextmanager
async def client(proxy: URL | None = None, *, resends: bool = True) -> AsyncIterator[AiohttpClient]:
    made = AiohttpClient(proxy, resends=resends)
    try:
        yield made
    finally:
        await made.aclose()


async def asked(one: AiohttpClient, port: int, body: Any = b"{}", **options: float) -> tuple[int, bytes]:
    options = {"connect_s": PATIENCE_S, "read_s": PATIENCE_S} | options
    answer = await one.ask("POST", URL(f"http://127.0.0.1:{port}/v1/x"), CIMultiDict(), body, **options)
    return answer.status, await body_of(answer)


async def body_of(answer: AiohttpAnswer) -> bytes:
    found = b""
    try:
        while piece := await answer.readany():
            found += piece
    finally:
        answer.release()
    return found


async def in_two() -> AsyncIterator[bytes]:
    yield b"first "
    yield b"second"


async def test_uploads_go_out_as_they_come_and_large_bodies_with_their_length(upstream: Upstream) -> None:
    async with client() as one:
        assert await asked(one, upstream.port, in_two()) == (200, b"first second")
        assert upstream.call().header("transfer-encoding") == "chunked"
        large = b"x" * 600_000
        assert await asked(one, upstream.port, large) == (200, large)
        assert upstream.call(1).header("content-length") == str(len(large))


@pytest.mark.parametrize(
    ("said", "failure"),
    [
        (b"", Disconnected),
        (b"HTTP/1.1 200 OK\r\nContent-Le", Disconnected),
        (b"hello\r\n\r\n", Invalid),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", Cut),
    ],
)
async def test_what_is_no_whole_answer_fails(upstream: Upstream, said: bytes, failure: type[Failure]) -> None:
    upstream.says(said)
    async with client() as one:
        with pytest.raises(failure):
            await asked(one, upstream.port, in_two())


async def test_the_reader_of_an_answer_whose_framing_breaks_is_told(upstream: Upstream) -> None:
    read = threading.Event()

    def breaks(call: Call) -> None:
        call.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        assert read.wait(PATIENCE_S)
        call.send(b"zz\r\n")
        assert call.hung_up()

    upstream.plays(breaks)
    async with client() as one:
        answer = await one.ask(
            "POST",
            URL(f"http://127.0.0.1:{upstream.port}/v1/x"),
            CIMultiDict(),
            b"{}",
            connect_s=PATIENCE_S,
            read_s=PATIENCE_S,
        )
        assert await answer.readany() == b"abc"
        read.set()
        with pytest.raises(Cut):
            await answer.readany()
        answer.release()


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("resends", [True, False])
async def test_a_kept_connection_that_says_nothing_is_left_for_another_at_most_once(
    method: str, resends: bool
) -> None:
    heads: list[bytes] = []

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    server = await asyncio.start_server(play, "127.0.0.1", 0)
    url = URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
    async with server, client(resends=resends) as one:
        for _ in range(2 if resends else 1):
            answer = await one.ask(method, url, CIMultiDict(), b"", connect_s=PATIENCE_S, read_s=PATIENCE_S)
            assert await body_of(answer) == b"ok"
        if not resends:
            with pytest.raises(Unanswered):
                await one.ask(method, url, CIMultiDict(), b"", connect_s=PATIENCE_S, read_s=PATIENCE_S)
    assert len(heads) == (3 if resends else 2)


async def test_silence_ends_it(upstream: Upstream) -> None:
    def silent(call: Call) -> None:
        assert call.hung_up()

    upstream.plays(silent)
    async with client() as one:
        with pytest.raises(ReadTimeout):
            await asked(one, upstream.port, read_s=0.1)


async def test_nobody_there_and_no_proxy_there(upstream: Upstream) -> None:
    async with client() as one, client(URL(f"http://127.0.0.1:{closed_port()}")) as through:
        with pytest.raises(NotConnected) as failed:
            await asked(one, closed_port())
        assert not failed.value.proxy and isinstance(failed.value.cause, OSError)
        with pytest.raises(NotConnected) as failed:
            await asked(through, upstream.port)
        assert failed.value.proxy


async def test_a_proxy_that_refuses(upstream: Upstream) -> None:
    upstream.says(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
    async with client(URL(upstream.url)) as one:
        with pytest.raises(ProxyRefused) as failed:
            await one.ask(
                "GET",
                URL("https://far.example/v1"),
                CIMultiDict(),
                b"",
                connect_s=PATIENCE_S,
                read_s=PATIENCE_S,
            )
        assert failed.value.status == 403
