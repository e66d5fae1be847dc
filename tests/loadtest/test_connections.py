"""Connections are kept, replaced when they turn out stale, and never more than allowed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loadtest.clock import now
from loadtest.connections import Pool
from loadtest.exchange import Exchange

REQUEST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi"
ANSWER = b'HTTP/1.1 200 OK\r\ncontent-length: 26\r\n\r\n{"choices":[{"text":"a"}]}'


async def read_request(reader: asyncio.StreamReader) -> None:
    await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(2)


async def ask(
    url: str, count: int, limit: int, tls: ssl.SSLContext | None = None, one_by_one: bool = True
) -> tuple[Pool, list[Exchange]]:
    """Send `count` requests and return how they ended."""
    address = ("127.0.0.1", int(url.rpartition(":")[2]))
    ended: asyncio.Queue[Exchange] = asyncio.Queue()
    found: list[Exchange] = []
    async with asyncio.TaskGroup() as group:
        pool = Pool(group, address, tls, "127.0.0.1", limit, 5.0, ended.put_nowait)
        for _ in range(count):
            pool.submit(Exchange(REQUEST, now(), now()))
            if one_by_one:
                found.append(await asyncio.wait_for(ended.get(), 60))
        while len(found) < count:
            found.append(await asyncio.wait_for(ended.get(), 60))
        pool.close()
    return pool, found


async def test_one_connection_serves_requests_that_follow_each_other(
    small_server: Callable[..., Any],
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(ANSWER)

    async with small_server(answer) as url:
        pool, found = await ask(url, 5, 10)
    assert [e.keep_alive for e in found] == [True] * 5
    assert pool.connects == 1


async def test_a_connection_the_server_closed_meanwhile_is_replaced_and_the_request_sent_again(
    small_server: Callable[..., Any],
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(ANSWER)
        await reader.readexactly(1)  # the second request's first byte: leave without a word

    async with small_server(answer) as url:
        pool, found = await ask(url, 3, 10)
    assert [bool(e.outcome) for e in found] == [False] * 3  # complete; the body is judged later
    assert pool.stale_retries == 2 and pool.connects == 3


async def test_a_fresh_connection_that_is_dropped_is_a_failure_not_a_retry(
    small_server: Callable[..., Any],
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)

    async with small_server(answer) as url:
        pool, found = await ask(url, 2, 10)
    assert {e.outcome for e in found} <= {"connection closed without an answer", "connection reset"}
    assert pool.stale_retries == 0


async def test_no_more_connections_than_allowed_are_opened_and_the_rest_waits(
    small_server: Callable[..., Any],
) -> None:
    open_now, most = 0, 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        try:
            while True:
                await read_request(reader)
                await asyncio.sleep(0.01)
                writer.write(ANSWER)
        finally:
            open_now -= 1

    async with small_server(answer) as url:
        pool, found = await ask(url, 20, 3, one_by_one=False)
    assert len(found) == 20 and not pool.waiting
    assert most <= 3


async def test_a_port_where_nobody_listens_is_said_to_refuse(small_server: Callable[..., Any]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pass

    async with small_server(answer) as url:
        pass
    _, found = await ask(url, 1, 1)
    assert found[0].outcome == "connection refused"


async def test_https_works_and_an_unknown_certificate_is_refused(
    small_server: Callable[..., Any], tls: tuple[Path, Path]
) -> None:
    certificate, key = tls
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate, key)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(ANSWER)

    async with small_server(answer, ssl=server_side) as url:
        trusting = ssl.create_default_context(cafile=str(certificate))
        pool, found = await ask(url, 3, 2, trusting)
        assert [e.keep_alive for e in found] == [True] * 3 and pool.connects == 1
        _, refused = await ask(url, 1, 1, ssl.create_default_context())
        assert refused[0].outcome.startswith("TLS: certificate verify failed")
