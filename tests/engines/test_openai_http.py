"""One upstream over HTTP: bytes out, bytes in, and failures that name the phase and never a secret."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import time
from collections.abc import AsyncIterator

import pytest
from multidict import CIMultiDict

from engines.engine import EngineInfo, EngineRequest
from engines.errors import ConnectFailed, EngineError, Kind, StreamBroken, TimedOut
from engines.openai_http import OpenAIHTTP
from engines.timeouts import Timeouts
from tests.engines.asking import PATIENT, asked, chat, closed_port, engine, read, request
from tests.flow.upstream import Call, Upstream

CANARY = "sk-canary-77"
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
WORD = b'data: {"choices":[{"index":0,"delta":{"content":"Oslo"}}]}\n\n'


async def test_what_goes_out_is_what_was_given_and_nothing_more(upstream: Upstream) -> None:
    headers = CIMultiDict([("X-One", "1"), ("X-One", "2"), ("Authorization", "Bearer client")])
    async with engine(upstream.port) as one:
        await asked(one, EngineRequest("PATCH", "/a//b%2Fc?x=%20&x", headers, b"body"))
    call = upstream.call()
    assert call.line == b"PATCH /v1/a//b%2Fc?x=%20&x HTTP/1.1"
    assert sorted(call.headers) == [
        ("authorization", "Bearer client"),
        ("content-length", "4"),
        ("host", f"127.0.0.1:{upstream.port}"),
        ("x-one", "1"),
        ("x-one", "2"),
    ]


async def test_an_engine_with_a_key_of_its_own_sends_that(upstream: Upstream) -> None:
    one = OpenAIHTTP(
        EngineInfo("e"),
        upstream.url,
        authorization="Bearer own",
        extra_headers={"X-Extra": "1"},
        timeouts=PATIENT,
    )

    headers = CIMultiDict([("Authorization", "Bearer client"), ("api-key", "client"), ("x-extra", "client")])
    await asked(one, EngineRequest("GET", "/models", headers, b""))
    await one.aclose()
    call = upstream.call()
    assert call.values("authorization") == ["Bearer own"] and call.values("x-extra") == ["1"]
    assert call.header("api-key") is None
    assert headers["Authorization"] == "Bearer client", "what was given is left as it was"


async def test_the_answer_comes_with_its_head_and_in_its_pieces(upstream: Upstream) -> None:
    def script(call: Call) -> None:
        call.begin(
            "text/event-stream", status=201, headers=[("x-request-id", "r"), ("Keep-Alive", "timeout=5")]
        )
        call.chunk(b"one")
        call.chunk(b"two")
        call.end()

    upstream.plays(script)
    async with engine(upstream.port, "big") as one, one.stream(request()) as reply:
        assert (reply.status, reply.reason, reply.engine, reply.self_delimiting) == (201, "OK", "big", True)
        assert reply.headers["x-request-id"] == "r" and "Keep-Alive" not in reply.headers
        assert one.load().in_flight == 1
        assert await read(reply) == b"onetwo"


async def test_an_upload_is_passed_on_as_it_arrives(upstream: Upstream) -> None:
    arrived = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"first "
        await asyncio.wait_for(arrived.wait(), 60)
        yield b"second"

    async def watch() -> None:
        await asyncio.to_thread(upstream.call)
        arrived.set()

    async with engine(upstream.port) as one, asyncio.TaskGroup() as group:
        group.create_task(watch())
        asking = group.create_task(asked(one, EngineRequest("POST", "/files", CIMultiDict(), body())))
    assert asking.result() == (200, b"first second")
    assert upstream.call().header("transfer-encoding") == "chunked"


async def test_an_answer_without_a_length_does_not_show_its_cut(upstream: Upstream) -> None:
    upstream.says(b"HTTP/1.1 200 OK\r\n\r\nhello")
    async with engine(upstream.port) as one, one.stream(request()) as reply:
        assert reply.self_delimiting is False
        assert await read(reply) == b"hello"


async def test_nobody_there() -> None:
    port = closed_port()
    async with engine(port, "gone") as one:
        with pytest.raises(ConnectFailed) as failed:
            await asked(one)
        with pytest.raises(ConnectFailed):
            await one.health()
        assert one.load().in_flight == 0
    assert failed.value.message == f"No connection to 127.0.0.1:{port}: Connection refused."
    assert failed.value.engine == "gone"


async def test_a_name_nobody_has_is_told_as_such() -> None:
    one = OpenAIHTTP(EngineInfo("e"), "http://nobody.invalid/v1", timeouts=PATIENT)
    with pytest.raises(ConnectFailed) as failed:
        await asked(one)
    await one.aclose()
    assert failed.value.kind is Kind.DNS


async def test_a_tls_error_names_its_cause() -> None:
    """Not "Operation not permitted", which is what its number would say of an error of the system."""

    def without_tls(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(without_tls, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        one = OpenAIHTTP(EngineInfo("e"), f"https://127.0.0.1:{port}/v1", timeouts=PATIENT)
        with pytest.raises(
            ConnectFailed, match=r"TLS: (wrong version number|record layer failure)"
        ) as failed:
            await asked(one)
        await one.aclose()
    assert failed.value.kind is Kind.TLS


async def test_no_connection_in_time() -> None:
    """A listener whose queue is full: the kernel drops further attempts to connect."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as stack:
        port = full.getsockname()[1]
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        async with engine(port, timeouts=Timeouts(0.2, 5, 5, 10)) as one:
            with pytest.raises(TimedOut) as late:
                await asked(one)
    assert late.value.kind is Kind.TIMEOUT_CONNECT
    assert late.value.message == f"No connection to 127.0.0.1:{port} within 0.2 s (connect_s)."


@pytest.mark.parametrize(
    ("timeouts", "stream", "says", "kind", "key"),
    [
        (Timeouts(2, 0.2, 60, 60), True, [], Kind.TIMEOUT_FIRST_DATA, "0.2 s (first_data_s)"),
        (Timeouts(2, 0.3, 60, 60), True, [b": ping\n\n"] * 4, Kind.TIMEOUT_FIRST_DATA, "(first_data_s)"),
        (Timeouts(2, 0.3, 60, 60), True, [ROLE], Kind.TIMEOUT_FIRST_DATA, "(first_data_s)"),
        (
            Timeouts(2, 60, 0.2, 60),
            True,
            [ROLE, WORD],
            Kind.TIMEOUT_GAP,
            "0.2 s in the middle of its answer (gap_s)",
        ),
        (Timeouts(2, 0.1, 0.1, 0.4), False, [], Kind.TIMEOUT_ANSWER, "0.4 s (answer_s)"),
        (Timeouts(2, 0.1, 0.1, 0.4), False, [b" "] * 4, Kind.TIMEOUT_ANSWER, "(answer_s)"),
    ],
)
async def test_each_phase_has_its_limit(
    upstream: Upstream, timeouts: Timeouts, stream: bool, says: list[bytes], kind: Kind, key: str
) -> None:
    """A comment or a role is no data, and what drips is no whole answer."""

    def script(call: Call) -> None:
        if says:
            call.begin("text/event-stream" if stream else "application/json")
        for chunk in says:
            call.chunk(chunk)
            time.sleep(0.05)
        assert call.hung_up()

    upstream.plays(script)
    async with engine(upstream.port, timeouts=timeouts) as one:
        with pytest.raises(TimedOut, match=re.escape(key)) as late:
            await asked(one, chat(stream=stream))
        assert late.value.kind is kind and late.value.status == 504
        assert await asyncio.to_thread(upstream.call().was_left)


async def test_what_a_stream_needed_until_its_first_data_is_noted_by_model(upstream: Upstream) -> None:
    """A role is no data, an answer that is no stream has none, and what was given up told nothing."""
    asked_at = 0.0

    def script(call: Call) -> None:
        nonlocal asked_at
        asked_at = time.monotonic()
        call.begin()
        for chunk in (ROLE, WORD, b"data: [DONE]\n\n"):
            call.chunk(chunk)
            time.sleep(0.1)
        call.end()

    async with engine(upstream.port, timeouts=Timeouts(2, 60, 60, 60)) as one:
        upstream.plays(script)
        await asked(one, chat(stream=True, model="n"))
        whole_s = time.monotonic() - asked_at
        assert 0.1 <= one.first_data_times.needed_s("n") < whole_s
        assert one.first_data_times.needed_s("m") == 0
        upstream.says(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        await asked(one, chat(stream=False, model="m"))
        assert one.first_data_times.needed_s("m") == 0


async def test_a_body_whose_framing_breaks_is_broken_at_once(upstream: Upstream) -> None:
    """aiohttp 3.14 tells nobody: without our own connection class this waits for the total limit."""

    def script(call: Call) -> None:
        call.begin()
        call.chunk(b"data: 1\n\n")
        assert released.wait(60)
        call.send(b"zz\r\n")
        assert call.hung_up()

    from threading import Event

    released = Event()
    upstream.plays(script)
    async with engine(upstream.port, timeouts=Timeouts(2, 30, 30, 60)) as one, one.stream(request()) as reply:
        assert await anext(reply.chunks) == b"data: 1\n\n"
        released.set()
        async with asyncio.timeout(60):
            with pytest.raises(StreamBroken):
                await anext(reply.chunks)


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
    ],
)
async def test_a_cut_answer_is_broken(upstream: Upstream, said: bytes) -> None:
    upstream.says(said)
    async with engine(upstream.port) as one:
        with pytest.raises(StreamBroken):
            await asked(one)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"hello\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-One: a\x01\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_what_cannot_be_passed_on_is_no_answer(upstream: Upstream, said: bytes) -> None:
    upstream.says(said)
    async with engine(upstream.port) as one:
        with pytest.raises(ConnectFailed):
            await asked(one)
        assert one.load().in_flight == 0


async def test_leaving_early_closes_and_finishing_keeps_the_connection(upstream: Upstream) -> None:
    upstream.plays(lambda call: call.answer(b"x" * 300_000, keep=len(upstream.calls) < 4))
    async with engine(upstream.port) as one:
        for _ in range(2):
            await asked(one)
        assert upstream.connections == 1
        async with one.stream(request()) as reply:
            await anext(reply.chunks)
        await asked(one)
        assert upstream.connections == 2


async def test_what_the_caller_raises_passes_through_as_it_is(upstream: Upstream) -> None:
    async with engine(upstream.port) as one:
        with pytest.raises(ConnectionResetError, match="the client left"):
            async with one.stream(request()):
                raise ConnectionResetError("the client left")
        assert one.load().in_flight == 0


async def test_no_failure_tells_a_secret(upstream: Upstream) -> None:
    upstream.plays(lambda call: call.reset())
    headers = CIMultiDict([("Authorization", f"Bearer {CANARY}")])
    what = EngineRequest("POST", f"/files?key={CANARY}", headers, CANARY.encode())
    async with engine(upstream.port) as one, engine(closed_port()) as none:
        for each in (one, none):
            with pytest.raises(ConnectFailed) as failed:
                await asked(each, what)
            assert CANARY not in failed.value.message and "/files" not in failed.value.message


async def test_redirects_cookies_and_proxies_are_not_followed(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port()}")
    headers = [("Location", "/v1/elsewhere"), ("Set-Cookie", "a=b; Path=/")]
    upstream.plays(lambda call: call.answer(b"moved", 302, headers))
    async with engine(upstream.port) as one:
        for _ in range(2):
            assert await asked(one) == (302, b"moved")
    assert [call.target for call in upstream.calls] == [b"/v1/chat/completions"] * 2
    assert upstream.calls[1].header("cookie") is None


@pytest.mark.parametrize(
    ("status", "healthy"), [(200, True), (401, True), (404, True), (501, True), (500, False), (503, False)]
)
async def test_health_is_any_answer_below_500(upstream: Upstream, status: int, healthy: bool) -> None:
    upstream.plays(lambda call: call.answer(b"", status))
    async with engine(upstream.port) as one:
        with contextlib.nullcontext() if healthy else pytest.raises(EngineError, match=str(status)):
            await one.health()
    assert upstream.call().line == b"GET /v1/models HTTP/1.1"
