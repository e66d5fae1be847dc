"""Connections of plain requests: what is taken as plain aiohttp reads the same, and nobody can tell the two apart."""

from __future__ import annotations

import asyncio
import random
import re
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import http_parser, web
from aiohttp.base_protocol import BaseProtocol
from multidict import CIMultiDict

from gateway.http.plain import MAX_BYTES, plain_request
from gateway.relay import relay_for
from gateway.wire import read_body, replace_body
from tests.flow.kinds import KINDS
from tests.gateway.serving import served

HEAD = (
    b"POST /v1/x?a=b HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-Odd_Name: a  b\t\r\n"
    b"Content-Length: 2\r\n\r\n"
)
FUZZED = 3000
NOTED = web.RequestKey("noted", str)
_PIECES = [
    *(b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"\0", b"\x7f", b"\xc3\xa4", b"#", b"%", b"//", b"HTTP/1.0"),
    *(
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Length: 1\r\n",
        b"Connection: close\r\n",
        b"Upgrade: h2c\r\n",
    ),
    *(
        b"Expect: 100-continue\r\n",
        b"Host: y\r\n",
        b"GET ",
        b"{}",
        b"X: \r\n",
        b"X:\r\n y\r\n",
        b"-",
        b"+",
        b"0",
    ),
]


def _changed(draw: random.Random) -> bytes:
    data = HEAD + b"{}"
    for _ in range(draw.randint(1, 3)):
        at, piece = draw.randrange(len(data) + 1), draw.choice(_PIECES)
        how = draw.randrange(3)
        if how == 0:
            data = data[:at] + piece + data[at:]
        elif how == 1:
            data = data[:at] + data[at + draw.randint(1, 3) :]
        else:
            line = data.split(b"\r\n")
            draw.shuffle(line)
            data = b"\r\n".join(line)
    return data


def _by_aiohttp(data: bytes) -> tuple[Any, bytes] | None:
    """(the message, its body) where aiohttp's parser reads one whole request and nothing after it."""
    loop = asyncio.get_running_loop()
    parser = http_parser.HttpRequestParser(
        BaseProtocol(loop), loop, 2**16, max_line_size=8190, max_field_size=8190, auto_decompress=False
    )
    try:
        messages, upgraded, rest = parser.feed_data(data)
    except Exception:
        return None
    if len(messages) != 1 or upgraded or rest:
        return None
    message, payload = messages[0]
    return (message, b"".join(payload._buffer)) if payload.is_eof() else None


async def test_what_is_plain_aiohttp_reads_the_same() -> None:
    """The whitelist may be smaller than what a parser takes, and never larger."""
    draw, plain = random.Random(7), 0
    for n in range(FUZZED):
        data = HEAD + b"{}" if n == 0 else _changed(draw)
        found = plain_request(data)
        if found is None or found.end != len(data):
            continue
        plain += 1
        read = _by_aiohttp(data)
        assert read is not None, data
        message, body = read
        assert (message.method, message.path) == ("POST", found.target), data
        assert list(message.headers.items()) == list(found.headers.items()), data
        assert body == data[found.begin :], data
        assert not (message.should_close or message.chunked or message.upgrade or message.compression), data
    assert plain > FUZZED / 50


@pytest.mark.parametrize(
    "line",
    [
        *(
            "Transfer-Encoding: chunked",
            "transfer-encoding : chunked",
            "Expect: 100-continue",
            "Upgrade: h2c",
        ),
        *(
            "Connection: close",
            "Connection: keep-alive, Upgrade",
            "Content-Length: 2",
            "Host: y",
            "X-A: \x01",
        ),
        *(" folded", "X-A : b", "X-A: \u00e4", "TE: trailers", "Trailer: x", "nothing"),
    ],
)
def test_what_is_not_plain_is_handed_over(line: str) -> None:
    assert plain_request(HEAD.replace(b"\r\n\r\n", f"\r\n{line}\r\n\r\n".encode()) + b"{}") is None


@pytest.mark.parametrize(
    "changed",
    [
        HEAD.replace(b"POST", b"GET"),
        HEAD.replace(b"HTTP/1.1", b"HTTP/1.0"),
        HEAD.replace(b"/v1", b"http://x/v1"),
        HEAD.replace(b"Host: x\r\n", b""),
        HEAD.replace(b"Content-Length: 2\r\n", b""),
        HEAD.replace(b": 2\r\n", b": 02\r\n"),
        HEAD.replace(b": 2\r\n", b": %d\r\n" % MAX_BYTES),
        HEAD.replace(b"Host: x", b"Host: x\r\nX-Long: " + b"a" * 9000),
    ],
)
def test_a_head_that_is_not_plain_is_handed_over(changed: bytes) -> None:
    assert plain_request(changed) is None


# ---- over sockets: the same bytes to both kinds of connection


async def _answering(request: web.BaseRequest) -> web.StreamResponse:
    body = await request.read()
    send = relay_for(request)
    status = int(request.headers.get("X-Status", "200"))
    headers = CIMultiDict(
        {"Content-Type": "text/event-stream", "X-Path": request.raw_path, "Date": "now", "Server": "s"}
    )
    if "X-Length" in request.headers:
        headers["Content-Length"] = request.headers["X-Length"]
    if request.headers.get("X-Way") == "whole":
        send.whole(status, headers, body or None)
        return send.response
    if request.headers.get("X-Way") == "own":
        response = web.Response(status=status, text="own", headers={"Date": "now", "Server": "s"})
        if body == b"{}":
            response.force_close()
        return response
    write = await send.begin(status, headers)
    for at in range(0, len(body), 5):
        await write(body[at : at + 5])
    return send.response


async def _talk(port: int, sent: list[bytes]) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        with suppress(OSError):
            for piece in sent:
                writer.write(piece)
                await asyncio.sleep(0.01)
            # Not where the server has closed it.
            writer.write_eof()
        async with asyncio.timeout(60):
            return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


def _asked(body: bytes, *headers: str) -> bytes:
    lines = ["POST /v1/x HTTP/1.1", "Host: x", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


_LAST = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
TALKS = {
    "stream": [_asked(b"hello world"), _LAST],
    "whole": [_asked(b"hello", "X-Way: whole"), _LAST],
    "nothing": [_asked(b"", "X-Way: whole"), _LAST],
    "no content": [_asked(b"hello", "X-Way: whole", "X-Status: 204"), _LAST],
    "not modified": [_asked(b"hello", "X-Way: whole", "X-Status: 304"), _LAST],
    "own": [_asked(b"hello", "X-Way: own"), _LAST],
    "own that closes": [_asked(b"{}", "X-Way: own"), _LAST],
    "with a length": [_asked(b"hello world", "X-Length: 11"), _LAST],
    "unknown status": [_asked(b"hello", "X-Way: whole", "X-Status: 299"), _LAST],
    "byte by byte": [*(bytes([b]) for b in _asked(b"{}", "X-Way: whole")), _LAST],
    "three in one": [_asked(b"a", "X-Way: whole") + _asked(b"b") + _asked(b"c", "X-Way: own"), _LAST],
    "two, one behind": [_asked(b"a" * 100, "X-Way: whole"), _asked(b"b", "X-Way: whole"), _LAST],
    "chunked second": [
        _asked(b"a", "X-Way: whole"),
        b"POST /y HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        _LAST,
    ],
    "nonsense second": [_asked(b"a", "X-Way: whole"), b"nonsense\r\n\r\n"],
    "closing": [_asked(b"a", "X-Way: whole", "Connection: close")],
    "half a head": [_asked(b"a", "X-Way: whole"), b"POST /v1/x HT"],
}


@pytest.mark.parametrize("talk", TALKS)
async def test_both_kinds_of_connection_say_the_same(talk: str) -> None:
    said: list[bytes] = []
    for cors in KINDS.values():
        async with served(_answering, cors=cors) as port:
            said.append(await _talk(port, TALKS[talk]))
    plain, by_aiohttp = said
    by_aiohttp = re.sub(rb"Vary: Origin\r\n", b"", by_aiohttp)
    assert plain == by_aiohttp


@pytest.mark.parametrize("kind", KINDS)
async def test_a_client_that_leaves_cancels_its_handler(kind: str) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def waits(request: web.BaseRequest) -> web.StreamResponse:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            assert request.transport is None
            cancelled.set()
            raise
        raise AssertionError

    async with served(waits, cors=KINDS[kind]) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_asked(b"{}"))
        await begun.wait()
        writer.close()
        async with asyncio.timeout(60):
            await cancelled.wait()
        await writer.wait_closed()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_slow_reader_holds_the_writer_back(kind: str) -> None:
    written = 0
    stuck = asyncio.Event()

    async def floods(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal written
        send = relay_for(request)
        write = await send.begin(200, CIMultiDict())
        for _ in range(1000):
            if written > 2**22:
                stuck.set()
            await write(b"x" * 2**16)
            written += 2**16
        return send.response

    async with served(floods, cors=KINDS[kind]) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**16)
        writer.write(_asked(b"{}"))
        await reader.readuntil(b"\r\n\r\n")
        before = -1
        while before != written:
            before = written
            await asyncio.sleep(0.2)
        assert written < 1000 * 2**16
        got = 0
        while got < 1000 * 2**16:
            got += len(await reader.read(2**20))
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_header_that_would_begin_another_one_closes_the_connection(kind: str) -> None:
    async def splits(request: web.BaseRequest) -> web.StreamResponse:
        send = relay_for(request)
        send.whole(200, CIMultiDict({"X-A": "a\r\nX-B: b"}), b"x")
        return send.response

    async with served(splits, cors=KINDS[kind]) as port:
        assert await _talk(port, [_asked(b"{}")]) == b""


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_with_another_body_keeps_what_is_noted_of_it(kind: str) -> None:
    kept: list[object] = []

    async def notes(request: web.BaseRequest) -> web.StreamResponse:
        request[NOTED] = "before"
        changed = replace_body(request, b"{}", {})
        kept.append((changed[NOTED], await read_body(changed, 10), changed.headers["Content-Length"]))
        response = web.Response()
        response.force_close()
        return response

    async with served(notes, cors=KINDS[kind]) as port:
        await _talk(port, [_asked(b"hello")])
    assert kept == [("before", b"{}", "2")]
