"""The way in: whatever happens behind it, an answer in OpenAI's shape leaves, and one request has ended."""

from __future__ import annotations

import asyncio

import orjson
import pytest
from aiohttp import web

from engines.errors import ConnectFailed, Kind, RequestError, TimedOut, Unavailable
from gateway.paths import origin_form
from router.finished import Journey, Outcome
from tests.gateway.serving import entry, exchange, get


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/v1/x?y=http://z/", "/v1/x?y=http://z/"),
        ("//v1/x", "//v1/x"),
        ("http://a.test/v1/x?y", "/v1/x?y"),
        ("HTTPS://a.test:1/v1//x", "/v1//x"),
        ("http://a.test", "/"),
        ("http://a.test?x=/v1/y", "?x=/v1/y"),
        ("h2ttp://a/v1", "/h2ttp://a/v1"),
        ("v1/x", "/v1/x"),
        ("*", "*"),
        ("", "/"),
    ],
)
def test_a_target_loses_its_scheme_and_host(target: str, path: str) -> None:
    assert origin_form(target) == path


async def fine(request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
    journey.answered(200)
    return web.Response(body=await request.read())


FAILURES = [
    (RequestError("Wrong.", code="odd", param="p"), 400, "odd", Outcome.REFUSED),
    (RequestError("Who?", status=401, code="missing_api_key"), 401, "missing_api_key", Outcome.REFUSED),
    (RequestError("Busy.", status=503, code="store_busy"), 503, "store_busy", Outcome.UNAVAILABLE),
    (ConnectFailed("Dead.", engine="big"), 502, "upstream_connection_failed", Outcome.FAILED),
    (TimedOut("Late.", kind=Kind.TIMEOUT_GAP, engine="big"), 504, "upstream_timeout", Outcome.FAILED),
    (Unavailable("Full.", engine="big", retry_after_s=2.4), 503, "engine_unavailable", Outcome.FAILED),
    (ZeroDivisionError("sk-canary"), 500, "internal_error", Outcome.FAILED),
]


@pytest.mark.parametrize(("failure", "status", "code", "outcome"), FAILURES, ids=[f[2] for f in FAILURES])
async def test_every_failure_becomes_an_answer(
    failure: Exception, status: int, code: str, outcome: Outcome
) -> None:
    async def fails(request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        raise failure

    async with entry(fails) as (port, ended):
        head, _, body = (await exchange(port, get())).partition(b"\r\n\r\n")
    assert int(head.split(b" ")[1]) == status
    assert orjson.loads(body)["error"]["code"] == code
    assert b"sk-canary" not in head + body
    (end,) = ended
    assert (end.status, end.outcome) == (status, outcome)
    assert b"x-request-id: " + end.arrival.id.encode() in head
    if isinstance(failure, Unavailable):
        assert b"Retry-After: 2" in head
    if outcome is Outcome.FAILED and status != 500:
        assert end.engine == "big"


async def test_no_route_is_404_and_is_reported() -> None:
    async with entry(fine) as (port, ended):
        assert (await exchange(port, get("/404"))).startswith(b"HTTP/1.1 404 ")
    assert ended[0].outcome is Outcome.REFUSED and ended[0].error == "unknown_url"


async def test_a_header_that_is_not_utf8_is_400() -> None:
    async def strict(request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        request.headers["X-One"].encode()
        return web.Response()

    async with entry(strict) as (port, ended):
        answer = await exchange(port, get().replace(b"Host: x", b"Host: x\r\nX-One: \xff"))
    assert b'"code":"invalid_header"' in answer and ended[0].status == 400


async def test_the_path_that_is_reported_holds_no_query() -> None:
    async with entry(fine) as (port, ended):
        await exchange(port, get("/x/y?key=sk-canary"))
    assert ended[0].arrival.path == "/x/y"


@pytest.mark.parametrize(
    ("version", "expect", "starts"),
    [
        ("1.1", "100-continue", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"),
        ("1.1", "100-Continue", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"),
        ("1.0", "100-continue", b"HTTP/1.0 200 OK"),
        ("1.1", "wonders", b"HTTP/1.1 417 "),
    ],
)
async def test_expectations(version: str, expect: str, starts: bytes) -> None:
    async with entry(fine) as (port, _):
        asked = get("/x", f"Expect: {expect}", method="POST", body=b"abc").replace(
            b"1.1", version.encode(), 1
        )
        assert (await exchange(port, asked)).startswith(starts)


@pytest.mark.parametrize(
    "asked",
    [
        b"CONNECT a.test:443 HTTP/1.1\r\nHost: x\r\n\r\nGET /x HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + get(),
        b"POST /x HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + get(),
        b"GET /x\r\n\r\n" + get(),
        get("/x", "Upgrade: websocket", method="POST", body=b"abc").replace(b": close", b": Upgrade") + get(),
    ],
)
async def test_what_is_ambiguous_is_refused_and_nothing_after_it_is_read(asked: bytes) -> None:
    async with entry(fine) as (port, ended):
        answer = await exchange(port, asked)
    assert 400 <= int(answer.split(b" ")[1]) < 500
    assert answer.count(b"Content-Length: ") == 1 and len(ended) <= 1


async def test_a_client_that_leaves_ends_its_request_as_aborted() -> None:
    entered = asyncio.Event()

    async def waits(request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        entered.set()
        await asyncio.sleep(30)
        return web.Response()

    async with entry(waits) as (port, ended):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get())
        await entered.wait()
        writer.close()
        await writer.wait_closed()
        async with asyncio.timeout(60):
            while not ended:
                await asyncio.sleep(0.01)
    assert ended[0].outcome is Outcome.ABORTED and ended[0].total_s > 0


async def test_a_failure_after_the_head_never_puts_a_second_answer_into_the_first() -> None:
    async def half(request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half")
        raise ZeroDivisionError

    async with entry(half) as (port, ended):
        answer = await exchange(port, get())
    assert answer.count(b"HTTP/1.1") == 1 and b"error" not in answer
    assert not answer.endswith(b"0\r\n\r\n"), "and it does not look whole"
    assert ended[0].outcome is Outcome.FAILED
