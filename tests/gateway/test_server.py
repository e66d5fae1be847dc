"""The process: connections that answer in OpenAI's shape, limits, and an ordered stop."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import socket

import pytest
from aiohttp import web

from engines.errors import RequestError
from gateway import server
from gateway.http.plain import PlainConnection
from gateway.server import stop_on_signals
from gateway.wire import arriving, read_body
from tests.flow.kinds import KINDS
from tests.gateway.serving import exchange, get, served
from understudy.processes.control import REFUSED, REPLACED
from understudy.processes.listening import bind
from understudy.processes.orders import Orders


async def echo(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=await request.read())


@pytest.mark.parametrize(
    ("asked", "status", "words"),
    [
        (b"nonsense\r\n\r\n", 400, b"not valid HTTP"),
        (get("/" + "a" * 40_000), 431, b"longer than"),
        (get("/x", "X-Long: " + "a" * 40_000), 431, b"longer than"),
        (get("/x", *[f"X-{n}: 1" for n in range(500)]), 400, b"not valid HTTP"),
    ],
    ids=["nonsense", "long line", "long header", "many headers"],
)
async def test_what_the_parser_refuses_is_answered_in_openai_shape(
    asked: bytes, status: int, words: bytes
) -> None:
    async with served(echo) as port:
        head, _, body = (await exchange(port, asked)).partition(b"\r\n\r\n")
    assert int(head.split(b" ")[1]) == status
    assert body.startswith(b'{"error":{"message":"') and words in body and b'"code":"bad_http"' in body


async def test_the_header_limit_is_configured() -> None:
    async with served(echo, max_header_bytes=1024) as port:
        assert (await exchange(port, get("/x", "X-Long: " + "a" * 2000))).startswith(b"HTTP/1.0 431")
        assert (await exchange(port, get("/x", "X-Long: " + "a" * 900))).startswith(b"HTTP/1.1 200")


UPLOAD = b"POST /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 6\r\n\r\nxxx"


@pytest.mark.parametrize("kind", KINDS)
async def test_who_waits_in_vain_for_a_body_is_told(kind: str) -> None:
    failed: list[RequestError] = []

    async def reads(request: web.BaseRequest) -> web.StreamResponse:
        try:
            return web.Response(body=await read_body(request, 100))
        except RequestError as error:
            failed.append(error)
            raise

    async with served(reads, body_gap_s=0.1, cors=KINDS[kind]) as port:
        await exchange(port, UPLOAD)
    assert [(one.status, one.code) for one in failed] == [(408, "request_timeout")]


@pytest.mark.parametrize("kind", KINDS)
async def test_while_nobody_reads_a_body_it_is_not_the_clients_pause(kind: str) -> None:
    longer = asyncio.Event()

    async def reads(request: web.BaseRequest) -> web.StreamResponse:
        body = arriving(request)
        first = await anext(body)
        await asyncio.sleep(1.2)
        longer.set()
        return web.Response(body=first + b"".join([chunk async for chunk in body]))

    async with served(reads, body_gap_s=1.0, cors=KINDS[kind]) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(UPLOAD)
        await longer.wait()
        writer.write(b"yyy")
        assert (await reader.read()).endswith(b"\r\n\r\nxxxyyy")
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("first", [b"", b"1\r\na\r\n"])
async def test_a_body_whose_framing_breaks_fails_the_request_that_waits_for_it(first: bytes) -> None:
    """aiohttp 3.14 tells nobody: without our own connection class the request waits for ever."""
    failed: list[str] = []

    async def reads(request: web.BaseRequest) -> web.StreamResponse:
        try:
            return web.Response(body=await request.read())
        except Exception as error:
            failed.append(str(error))
            raise

    async with served(reads) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + first)
        await asyncio.sleep(0.05)
        writer.write(b"zz\r\n")
        async with asyncio.timeout(60):
            await reader.read()
        writer.close()
        await writer.wait_closed()
    assert failed == ["The request body is not valid HTTP."]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stop_lets_an_upload_finish(kind: str) -> None:
    """aiohttp drops what arrives once it is stopping; an upload under way must still come in."""
    begun = asyncio.Event()

    async def reads(request: web.BaseRequest) -> web.StreamResponse:
        begun.set()
        return web.Response(body=b"%d" % len(await request.read()))

    async def ask(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        await begun.wait()
        stopping.set()
        await asyncio.sleep(0.1)
        writer.write(b"x" * 100_000)
        async with asyncio.timeout(60):
            answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer

    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        async with served(reads, grace_s=10, cors=KINDS[kind]) as port:
            asking = group.create_task(ask(port))
            await stopping.wait()
    assert asking.result().endswith(b"\r\n\r\n100000")


async def test_a_stop_cuts_what_takes_longer_than_the_grace_period() -> None:
    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        begun.set()
        while True:
            await response.write(b"x")
            await asyncio.sleep(0.01)

    begun = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        async with served(endless, grace_s=0.2) as port:
            asking = group.create_task(exchange(port, get()))
            await begun.wait()
    assert not asking.result().endswith(b"0\r\n\r\n")


KEPT = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_that_comes_as_its_idle_connection_is_to_be_closed_is_answered(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It lies with the system, and the event loop has not read it: closing now would lose it."""
    stop, look = asyncio.Event(), server._has_come
    sent: list[bool] = []

    def last_moment(connection: server._Connection | PlainConnection) -> bool:
        if not sent:
            client.sendall(KEPT)
            sent.append(look(connection))
        return look(connection)

    monkeypatch.setattr(server, "_has_come", last_moment)
    async with served(echo, stop=stop, linger_s=0.05, grace_s=30.0, cors=KINDS[kind]) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(KEPT)
            first = await asyncio.to_thread(client.recv, 10_000)
            stop.set()
            second = await asyncio.to_thread(client.recv, 10_000)
            closed = await asyncio.to_thread(client.recv, 10_000)
    assert sent == [True] and first.startswith(b"HTTP/1.1 200") and b"Connection: close" not in first
    assert second.startswith(b"HTTP/1.1 200") and b"Connection: close" in second
    assert closed == b""


async def test_a_worker_that_was_replaced_is_asked_to_end_and_knows_why() -> None:
    ours, theirs = multiprocessing.Pipe()
    orders, stop = Orders(theirs), asyncio.Event()
    told: list[str] = []
    with orders.taken(told.append, None, stop):
        ours.send((REFUSED, "the file is half written"))
        ours.send(REPLACED)
        async with asyncio.timeout(60):
            await stop.wait()
    assert orders.replaced and told == ["the file is half written"]
    for end in (ours, theirs):
        end.close()


async def test_a_signal_asks_for_an_ordered_stop_however_often_it_comes() -> None:
    stop = asyncio.Event()
    before = signal.getsignal(signal.SIGTERM)
    try:
        stop_on_signals(stop)
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            await stop.wait()
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before)


def test_a_port_is_bound_once_unless_it_is_shared() -> None:
    with bind("127.0.0.1", 0) as first:
        first.listen()
        with pytest.raises(OSError, match="in use"):
            bind("127.0.0.1", first.getsockname()[1])
    with bind("127.0.0.1", 0, shared=True) as one, bind("127.0.0.1", one.getsockname()[1], shared=True):
        pass
