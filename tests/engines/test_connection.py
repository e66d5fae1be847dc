"""The client for plain requests against servers that say anything, in any pieces, and stop at any time."""

from __future__ import annotations

import asyncio
import random
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
import uvloop
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict
from yarl import URL

from engines.aiohttp_client import AiohttpClient
from engines.connection import Connection, Origin, own_tls_context, request_head, tls_context
from engines.exchanges import (
    ConnectTimeout,
    Cut,
    Disconnected,
    Failure,
    Invalid,
    NotConnected,
    ReadTimeout,
    Unanswered,
)
from tests.engines.asking import closed_port

PATIENCE_S = 60.0
Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter
Play = Callable[[Reader, Writer], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers each connection by `play`; `heads` are the requests that came."""

    def __init__(self) -> None:
        self.port = 0
        self.heads: list[bytes] = []
        self.connections = 0

    async def head(self, reader: Reader) -> bytes:
        """The next request's head."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        return head


@asynccontextmanager
async def served(
    play: Callable[[Server, Reader, Writer], Awaitable[None]], **options: Any
) -> AsyncIterator[tuple[Server, Origin]]:
    """A server that plays, and a client's connections to it."""
    server, playing = Server(), set[asyncio.Task[None]]()

    async def connected(reader: Reader, writer: Writer) -> None:
        server.connections += 1
        playing.add(cast("asyncio.Task[None]", asyncio.current_task()))
        try:
            await play(server, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0, **options)
    server.port = listening.sockets[0].getsockname()[1]
    origin = Origin(URL(f"http://127.0.0.1:{server.port}/v1"))
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield server, origin
            await origin.aclose()
            assert not origin.open and not origin.idle
            for task in playing:
                await task
    finally:
        listening.close()


async def ask(origin: Origin, method: str = "POST", body: bytes = b"{}", **options: Any) -> Connection:
    """The answer to a request, once its head is here."""
    options = {"connect_s": PATIENCE_S, "read_s": PATIENCE_S, "resends": True} | options
    return await origin.ask(method, "/v1/x", CIMultiDict(), body, **options)


async def body_of(answer: Connection) -> bytes:
    """All of its body, and its connection is given back."""
    found = b""
    while piece := await answer.readany():
        found += piece
    answer.release()
    return found


async def saying(origin: Origin, method: str = "POST", **options: Any) -> tuple[int, bytes]:
    """Ask; the status and the whole body."""
    answer = await ask(origin, method, **options)
    try:
        return answer.status, await body_of(answer)
    finally:
        if not answer.ended:
            answer.release()


def says(answer: bytes, *, keep: bool = False) -> Callable[[Server, Reader, Writer], Awaitable[None]]:
    """Answer a request with these bytes; `keep`: and all that come after it, on the same connection."""

    async def play(server: Server, reader: Reader, writer: Writer) -> None:
        while True:
            await server.head(reader)
            await reader.readexactly(2 if b"Content-Length: 2" in server.heads[-1] else 0)
            writer.write(answer)
            await writer.drain()
            if not keep:
                return

    return play


# ---- what is sent


def test_a_head_is_what_was_given_in_its_order() -> None:
    headers = CIMultiDict([("X-b", "1"), ("x-A", "2"), ("X-b", "3"), ("Q", "caf\udce9")])
    assert request_head("POST", "/v1/a?b=%20", "h:1", headers, 3) == (
        b"POST /v1/a?b=%20 HTTP/1.1\r\nHost: h:1\r\nX-b: 1\r\nx-A: 2\r\nX-b: 3\r\nQ: caf\xe9\r\n"
        b"Content-Length: 3\r\n\r\n"
    )
    assert request_head("GET", "/", "h", CIMultiDict(), 0) == b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
    assert b"\r\nContent-Length: 0\r\n" in request_head("DELETE", "/", "h", CIMultiDict(), 0)
    told = CIMultiDict([("content-length", "3"), ("host", "of.its.own"), ("A", "b")])
    assert request_head("PUT", "/", "h", told, 3) == (
        b"PUT / HTTP/1.1\r\nHost: of.its.own\r\ncontent-length: 3\r\nA: b\r\n\r\n"
    )
    assert b"Content-Length: 4\r\n" in request_head("PUT", "/", "h", told, 4), (
        "a wrong length hides a request"
    )
    assert told["content-length"] == "3", "what was given is left as it was"


@pytest.mark.parametrize("value", ["a\r\nX: b", "a\nX: b", "a\rb", "a\0b"])
def test_nothing_can_begin_a_header_of_its_own(value: str) -> None:
    with pytest.raises(ValueError, match="control character"):
        request_head("GET", "/", "h", CIMultiDict({"A": value}), 0)
    with pytest.raises(ValueError, match="control character"):
        request_head("GET", f"/{value}", "h", CIMultiDict(), 0)


async def test_a_large_body_leaves_whole() -> None:
    body = random.Random(1).randbytes(3_000_000)
    came = b""

    async def play(server: Server, reader: Reader, writer: Writer) -> None:
        nonlocal came
        await server.head(reader)
        came = await reader.readexactly(len(body))
        writer.write(OK)

    async with served(play) as (_, origin):
        assert await saying(origin, body=body) == (200, b"ok")
    assert came == body


# ---- what is answered


@pytest.mark.parametrize(
    ("said", "status", "body"),
    [
        (OK, 200, b"ok"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil it closes", 200, b"until it closes"),
        (b"HTTP/1.0 200 OK\r\n\r\nold", 200, b"old"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b""),
        (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, b""),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nX-T: 1\r\n\r\n",
            200,
            b"abcde",
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" + OK, 200, b"ok"),
    ],
)
@pytest.mark.parametrize("looping", [asyncio.run, uvloop.run])
def test_answers_are_read_as_they_are_framed(
    looping: Callable[[Any], None], said: bytes, status: int, body: bytes
) -> None:
    async def check() -> None:
        async with served(says(said)) as (_, origin):
            answer = await ask(origin)
            assert answer.status == status and "Link" not in answer.headers and "X-T" not in answer.headers
            assert await body_of(answer) == body

    looping(check())


async def test_headers_keep_their_bytes_names_and_order() -> None:
    said = (
        b"HTTP/1.1 299 Very  Odd\r\nx-ONE: caf\xe9 \t\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nEmpty:\r\n"
        b"Content-Length: 0\r\n\r\n"
    )
    async with served(says(said)) as (_, origin):
        answer = await ask(origin)
        assert (answer.status, answer.reason) == (299, "Very  Odd")
        assert list(answer.headers.items()) == [
            ("x-ONE", "caf\udce9"),
            ("Set-Cookie", "a"),
            ("Set-Cookie", "b"),
            ("Empty", ""),
            ("Content-Length", "0"),
        ]
        assert await body_of(answer) == b""


async def test_the_answer_to_head_has_no_body_and_its_connection_is_not_kept() -> None:
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
    async with served(says(said, keep=True)) as (server, origin):
        assert await saying(origin, "HEAD", body=b"") == (200, b"")
        assert await saying(origin, "HEAD", body=b"") == (200, b"")
        assert server.connections == 2


async def test_a_connection_serves_one_request_after_another() -> None:
    async with served(says(OK, keep=True)) as (server, origin):
        for _ in range(3):
            assert await saying(origin) == (200, b"ok")
        assert server.connections == 1
        both = await asyncio.gather(saying(origin), saying(origin))
        assert both == [(200, b"ok")] * 2 and server.connections == 2


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
    ],
)
async def test_a_connection_that_is_closed_or_says_too_much_is_not_kept(said: bytes) -> None:
    async with served(says(said, keep=True)) as (server, origin):
        for _ in range(2):
            assert await saying(origin) == (200, b"ok")
        assert server.connections == 2


async def test_an_answer_that_is_longer_than_its_length_is_none() -> None:
    async with served(says(OK + b"garbage", keep=True)) as (_, origin):
        with pytest.raises(Cut):
            await saying(origin)


async def test_what_nobody_asked_for_closes_an_idle_connection() -> None:
    more, sent = asyncio.Event(), asyncio.Event()

    async def play(server: Server, reader: Reader, writer: Writer) -> None:
        await server.head(reader)
        await reader.readexactly(2)
        writer.write(OK)
        if server.connections > 1:
            return
        await more.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        assert await reader.read() == b""
        sent.set()

    async with served(play) as (_, origin):
        assert await saying(origin) == (200, b"ok")
        more.set()
        await sent.wait()
        assert not origin.idle
        assert await saying(origin) == (200, b"ok")


async def test_a_body_flows_for_as_long_as_it_is_taken_and_its_end_is_read() -> None:
    came, taken = asyncio.Semaphore(0), list[bytes]()

    async def play(server: Server, reader: Reader, writer: Writer) -> None:
        await server.head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        for piece in (b"b", b"c", b"d", b"e"):
            await came.acquire()
            writer.write(b"1\r\n%b\r\n" % piece)
        await came.acquire()
        if server.connections == 1:
            writer.write(b"0\r\n\r\n")

    def take(piece: bytes) -> bool:
        if piece == b"d":
            return False
        taken.append(piece)
        came.release()
        return True

    async with served(play) as (_, origin):
        for whole in (True, False):
            taken.clear()
            answer = await ask(origin)
            assert await answer.readany() == b"a"
            came.release()
            await answer.flow(take)
            assert taken == [b"b", b"c"], "what is refused is neither lost nor taken"
            await answer.flow(take)
            assert await answer.readany() == b"d"
            came.release()
            await answer.flow(take)
            assert taken == [b"b", b"c", b"e"]
            if whole:
                assert await answer.readany() == b""
            else:
                with pytest.raises(Cut):
                    await answer.readany()
            answer.release()


# ---- what fails


@pytest.mark.parametrize(
    ("said", "failure"),
    [
        (b"", Disconnected),
        (b"HTTP/1.1 200 OK\r\nContent-Le", Disconnected),
        (b"hello\r\n\r\n", Invalid),
        (b"HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n", Invalid),
        (b"HTTP/1.1 200 OK\r\nA: " + b"a" * 70_000 + b"\r\n\r\n", Invalid),
        (b"HTTP/1.1 200 " + b"a" * 70_000 + b"\r\n\r\n", Invalid),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 129 + b"\r\n", Invalid),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n12", Invalid),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", Cut),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", Cut),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz", Cut),
    ],
)
async def test_what_is_no_whole_answer_fails(said: bytes, failure: type[Failure]) -> None:
    async with served(says(said)) as (_, origin):
        with pytest.raises(failure):
            await saying(origin)


@pytest.mark.parametrize(
    "endless", [b"HTTP/1.1 100 Continue\r\n\r\n", b"A" * 1000], ids=["interim answers", "a header's name"]
)
async def test_a_head_that_does_not_end_is_given_up(endless: bytes) -> None:
    async def play(server: Server, reader: Reader, writer: Writer) -> None:
        await server.head(reader)
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n" if endless[:1] == b"A" else b"")
        while True:
            writer.write(endless * 100)
            await writer.drain()

    async with served(play) as (_, origin):
        with pytest.raises(Invalid):
            await saying(origin)


async def test_what_came_of_a_cut_body_is_read_first() -> None:
    async with served(says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")) as (_, origin):
        answer = await ask(origin)
        assert await answer.readany() == b"abc"
        with pytest.raises(Cut):
            await answer.readany()
        answer.release()


async def test_a_reset_in_the_middle_is_a_cut() -> None:
    async def play(server: Server, reader: Reader, writer: Writer) -> None:
        await server.head(reader)
        await reader.readexactly(2)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await writer.drain()
        await reader.readexactly(1)

    async with served(play) as (_, origin):
        answer = await ask(origin, body=b"{}")
        assert await answer.readany() == b"abc"
        assert answer.transport is not None
        answer.transport.write(b"x")
        with pytest.raises(Cut):
            await answer.readany()
        answer.release()


async def test_nobody_there() -> None:
    origin = Origin(URL(f"http://127.0.0.1:{closed_port()}"))
    with pytest.raises(NotConnected) as failed:
        await ask(origin)
    assert isinstance(failed.value.cause, ConnectionRefusedError)


@pytest.mark.parametrize("looping", [asyncio.run, uvloop.run])
def test_tls_is_spoken_with_those_that_are_trusted(
    looping: Callable[[Any], None], tls: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_side.load_cert_chain(*tls)

    async def check() -> None:
        async with served(says(OK, keep=True), ssl=server_side) as (server, _):
            for trusted in (False, True):
                if trusted:
                    monkeypatch.setenv("SSL_CERT_FILE", str(tls[0]))
                tls_context.cache_clear()
                origin = Origin(URL(f"https://127.0.0.1:{server.port}"))
                if trusted:
                    before = server.connections
                    for _ in range(2):
                        assert await saying(origin) == (200, b"ok")
                    assert server.connections == before + 1
                else:
                    with pytest.raises(NotConnected) as failed:
                        await ask(origin)
                    assert isinstance(failed.value.cause, ssl.SSLCertVerificationError)
                await origin.aclose()

    try:
        looping(check())
    finally:
        tls_context.cache_clear()


def signed_by(authority: tuple[Path, Path], folder: Path) -> tuple[Path, Path]:
    """A certificate of a client that the authority has signed, and its key."""
    certificate, key, asked = folder / "client.pem", folder / "client-key.pem", folder / "client.csr"
    made = "req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=gateway"
    new = f"openssl {made} -keyout {key} -out {asked}"
    sign = f"openssl x509 -req -in {asked} -CA {authority[0]} -CAkey {authority[1]} -CAcreateserial -days 1"
    # Python 3.13 takes only a certificate that names its authority's key (RFC 5280).
    (folder / "extensions").write_text("authorityKeyIdentifier=keyid\n")
    sign += f" -extfile {folder}/extensions -out {certificate}"
    for words in (new, sign):
        subprocess.run(words.split(), check=True, capture_output=True)
    return certificate, key


async def test_an_upstream_has_an_authority_of_its_own_and_is_shown_a_certificate(
    tls: tuple[Path, Path], tmp_path: Path
) -> None:
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tls[0]))
    server_side.load_cert_chain(*tls)
    server_side.verify_mode = ssl.CERT_REQUIRED
    certificate, key = signed_by(tls, tmp_path)
    async with served(says(OK, keep=True), ssl=server_side) as (server, _):
        url = URL(f"https://127.0.0.1:{server.port}")
        origin = Origin(url, own_tls_context(str(tls[0]), str(certificate), str(key)))
        assert await saying(origin) == (200, b"ok")
        await origin.aclose()
        odd = AiohttpClient(None, resends=False, tls=own_tls_context(str(tls[0]), str(certificate), str(key)))
        answer = await odd.ask("GET", url / "x", CIMultiDict(), b"", connect_s=60, read_s=60)
        assert answer.status == 200
        answer.release()
        await odd.aclose()
        without = Origin(url, own_tls_context(str(tls[0]), None))
        with pytest.raises(Failure):
            await saying(without)
        await without.aclose()


def test_files_of_certificates_that_cannot_be_used_are_named(tls: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ca_file /nowhere.pem .*no such file"):
        own_tls_context("/nowhere.pem", None)
    (tmp_path / "empty.pem").write_text("nothing")
    for ca_file, cert_file, key_file in (
        (str(tmp_path / "empty.pem"), None, None),
        (None, str(tls[0]), None),
        (None, str(tls[0]), str(tmp_path / "empty.pem")),
    ):
        with pytest.raises(ValueError, match="holds no certificate"):
            own_tls_context(ca_file, cert_file, key_file)


async def test_a_server_that_is_not_trusted() -> None:
    async def play(server: Server, reader: Reader, writer: Writer) -> None:
        assert (await reader.read(3))[:1] == b"\x16"

    async with served(play) as (server, _):
        origin = Origin(URL(f"https://127.0.0.1:{server.port}"))
        with pytest.raises(NotConnected):
            await ask(origin)
    assert not origin.open


async def test_a_handshake_that_does_not_end_is_a_connection_that_takes_too_long() -> None:
    async def play(server: Server, reader: Reader, writer: Writer) -> None:
        while await reader.read(1000):
            pass

    async with served(play) as (server, _):
        origin = Origin(URL(f"https://127.0.0.1:{server.port}"))
        with pytest.raises(ConnectTimeout):
            await ask(origin, connect_s=0.2)


async def test_silence_ends_it() -> None:
    async def play(server: Server, reader: Reader, writer: Writer) -> None:
        await server.head(reader)
        if server.connections == 2:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok")
        while await reader.read(1000):
            pass

    async with served(play) as (_, origin):
        with pytest.raises(ReadTimeout):
            await ask(origin, read_s=0.1)
        answer = await ask(origin)
        answer.limit(0.1)
        assert await answer.readany() == b"ok"
        with pytest.raises(ReadTimeout):
            await answer.readany()
        answer.release()


# ---- connections that were kept


async def test_a_kept_connection_that_was_closed_is_tried_anew_once() -> None:
    closes = asyncio.Event()

    async def play(server: Server, reader: Reader, writer: Writer) -> None:
        await server.head(reader)
        await reader.readexactly(2)
        writer.write(OK)
        if server.connections == 1:
            # The next request finds the connection open, and no answer.
            await server.head(reader)
            closes.set()

    async with served(play) as (server, origin):
        assert await saying(origin) == (200, b"ok")
        assert await saying(origin) == (200, b"ok")
        assert closes.is_set() and server.connections == 2 and len(server.heads) == 3


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 2"])
async def test_nothing_is_sent_twice_that_may_not_be(begun: bytes) -> None:
    """Once a byte of an answer came, or where it is not wanted."""

    async def play(server: Server, reader: Reader, writer: Writer) -> None:
        await server.head(reader)
        await reader.readexactly(2)
        writer.write(OK)
        await server.head(reader)
        writer.write(begun)

    async with served(play) as (server, origin):
        assert await saying(origin) == (200, b"ok")
        with pytest.raises(Disconnected) as failed:
            await saying(origin, resends=begun != b"")
        assert isinstance(failed.value, Unanswered) is (begun == b"")
        assert server.connections == 1


async def test_a_new_connection_that_is_closed_is_not_tried_again() -> None:
    async with served(says(b"")) as (server, origin):
        with pytest.raises(Disconnected) as failed:
            await saying(origin)
        assert not isinstance(failed.value, Unanswered) and server.connections == 1


# ---- readers and writers that are slow, or leave


async def test_a_slow_reader_slows_the_server() -> None:
    size, sent = 50_000_000, 0

    async def play(server: Server, reader: Reader, writer: Writer) -> None:
        nonlocal sent
        await server.head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // 50_000):
            writer.write(b"x" * 50_000)
            await writer.drain()
            sent += 50_000

    async with served(play) as (_, origin):
        answer = await ask(origin)
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.3)
        assert sent < size / 2, "the buffers of the system, and no more of ours than one read"
        assert len(await body_of(answer)) == size


async def test_an_answer_before_all_of_the_request_was_sent_is_an_answer() -> None:
    read_on = asyncio.Event()

    async def play(server: Server, reader: Reader, writer: Writer) -> None:
        await server.head(reader)
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        await read_on.wait()

    async with served(play) as (_, origin):
        assert await saying(origin, body=b"x" * 20_000_000) == (413, b"no")
        assert not origin.idle, "the rest of the request is never sent"
        read_on.set()


@pytest.mark.parametrize("head", [False, True])
async def test_who_stops_waiting_closes_the_connection(head: bool) -> None:
    left = asyncio.Event()

    async def play(server: Server, reader: Reader, writer: Writer) -> None:
        await server.head(reader)
        await reader.readexactly(2)
        if head:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
        asked.set()
        with suppress(ConnectionError):
            assert await reader.read() == b""
        left.set()

    async def asking(origin: Origin) -> None:
        answer = await ask(origin)
        try:
            await answer.readany()
        finally:
            answer.release()

    asked = asyncio.Event()
    async with served(play) as (_, origin):
        task = asyncio.create_task(asking(origin))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await left.wait()


# ---- the same bytes in any pieces


class Wire:
    """Takes what a protocol does to its transport."""

    closed = False

    def write(self, data: bytes) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default


Verdict = tuple[int, tuple[tuple[str, str], ...], bytes | None] | str
"""Status, headers and body, None where it is not whole."""


async def ours(pieces: list[bytes], method: str) -> Verdict:
    """What the client makes of them, and then of the connection's end."""
    one, wire = Connection(Origin(URL("http://h"))), Wire()
    one.connection_made(cast(asyncio.Transport, wire))
    head = one.send(method, b"", b"", PATIENCE_S)
    for piece in pieces:
        if not wire.closed:
            one.data_received(piece)
    one.connection_lost(None)
    try:
        await head
    except Failure:
        return "no answer"
    found, whole = b"", True
    try:
        while data := await one.readany():
            found += data
    except Cut:
        whole = False
    headers = tuple((name.lower(), value) for name, value in one.headers.items())
    return one.status, headers, found if whole else None


async def aiohttps(said: bytes, method: str) -> Verdict:
    """What aiohttp's client makes of them, byte by byte: what follows an answer's end spoils the answer, if both come at
    once."""
    one, wire = ResponseHandler(asyncio.get_running_loop()), Wire()
    one.connection_made(cast(asyncio.Transport, wire))
    one.set_response_params(
        skip_payload=method == "HEAD",
        read_until_eof=True,
        auto_decompress=False,
        max_line_size=65536,
        max_field_size=65536,
    )
    for at in range(len(said)):
        if not wire.closed:
            one.data_received(said[at : at + 1])
    broken = one.exception()
    one.connection_lost(None)
    try:
        message, payload = await one.read()
        while 100 <= message.code < 200:
            message, payload = await one.read()
    except (aiohttp.ClientError, HttpProcessingError):
        return "no answer"
    headers = tuple((name.lower(), value) for name, value in message.headers.items())
    if broken is not None and not payload.is_eof():
        return message.code, headers, None
    try:
        return message.code, headers, await payload.read()
    except aiohttp.ClientPayloadError:
        return message.code, headers, None


def some_answer(draw: random.Random) -> bytes:
    """Bytes that are nearly an answer."""
    pick = draw.choice
    said = b""
    for _ in range(pick((0, 0, 0, 1, 2))):
        said += b"HTTP/1.1 1%02d %s\r\n%s\r\n" % (
            pick((0, 2, 3)),
            pick((b"", b"So")),
            pick((b"", b"A: b\r\n")),
        )
    said += b"HTTP/1.%d %d %s\r\n" % (
        pick((1, 1, 1, 0)),
        pick((200, 200, 404, 503, 204, 304)),
        pick((b"OK", b"")),
    )
    for _ in range(draw.randrange(4)):
        said += pick(
            (b"A: b", b"B:c ", b"x-Long: " + b"l" * 300, b"U: \xe9\xff", b"E:", b"Connection: close")
        )
        said += b"\r\n"
    body = draw.randbytes(draw.randrange(60))
    match pick(("length", "chunked", "chunked", "close", "both")):
        case "length":
            said += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        case "close":
            said += b"\r\n" + body
        case framing:
            said += b"Transfer-Encoding: chunked\r\n"
            said += b"Content-Length: 3\r\n" if framing == "both" else b""
            said += b"\r\n"
            for part in (body[:7], body[7:20], body[20:]):
                ext = pick((b"", b"", b";a=b", b" "))
                said += b"%x%s\r\n%s\r\n" % (len(part), ext, part) if part else b""
            said += b"0\r\n" + pick((b"", b"", b"T: 1\r\n")) + b"\r\n"
    match pick(("whole", "whole", "whole", "cut", "changed", "more")):
        case "cut":
            said = said[: draw.randrange(len(said))]
        case "changed":
            at = draw.randrange(len(said))
            said = said[:at] + pick((b"", b"\r", b"\n", b"\0", b" ", b":", b"9", b"\x80")) + said[at + 1 :]
        case "more":
            said += pick((b"x", OK, b"\r\n"))
    return said


def in_pieces(said: bytes, draw: random.Random) -> list[bytes]:
    cuts = sorted(draw.randrange(len(said) + 1) for _ in range(draw.randrange(1, 6)))
    return [piece for a, b in zip([0, *cuts], [*cuts, len(said)], strict=True) if (piece := said[a:b])]


async def test_an_answer_is_the_same_split_at_every_byte() -> None:
    said = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX-One: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3;e=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n"
    )
    expected = (200, (("x-one", "1"), ("transfer-encoding", "chunked")), b"abc0123456789")
    for at in range(len(said) + 1):
        assert await ours([said[:at], said[at:]], "POST") == expected, at
    assert await ours([said[i : i + 1] for i in range(len(said))], "POST") == expected
    assert await aiohttps(said, "POST") == expected


async def test_a_thousand_answers_are_the_same_in_any_pieces_and_what_aiohttp_makes_of_them() -> None:
    draw = random.Random(42)
    for number in range(1000):
        said, method = some_answer(draw), draw.choice(("POST", "POST", "POST", "HEAD"))
        alone = await ours([said[i : i + 1] for i in range(len(said))], method)
        assert await aiohttps(said, method) == alone, (number, said)
        for pieces in ([said], in_pieces(said, draw)):
            found = await ours(pieces, method)
            # What follows an answer's end spoils the answer if both come at once.
            assert found in (alone, (*alone[:2], None)), (number, said, pieces)
