"""Everything the pipeline does not touch: small bodies in one go, large ones as they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from engines.engine import EngineInfo
from engines.openai_http import OpenAIHTTP
from engines.timeouts import Timeouts
from gateway.keys import NoAuthentication
from gateway.passthrough import Passthrough
from router.finished import Journey, Outcome
from tests.flow.upstream import Upstream
from tests.gateway.serving import entry, exchange, get

LIMIT_BYTES = 400_000


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    upstream = Upstream()
    yield upstream
    upstream.forget()
    upstream.close()


@asynccontextmanager
async def passing(upstream: Upstream) -> AsyncIterator[tuple[int, list[Journey]]]:
    engine = OpenAIHTTP(EngineInfo("up"), upstream.url, timeouts=Timeouts(2, 5, 5, 20))
    try:
        async with entry(
            Passthrough(engine, NoAuthentication(), max_body_bytes=LIMIT_BYTES), max_json_bytes=10_000
        ) as opened:
            yield opened
    finally:
        await engine.aclose()


def chunked(*chunks: bytes) -> bytes:
    head = b"POST /files HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


@pytest.mark.parametrize("size", [0, 1, 10_000, 11_000, 262_144, 262_145, LIMIT_BYTES])
async def test_a_body_of_any_size_within_the_limit_arrives(upstream: Upstream, size: int) -> None:
    """Also one over the limit for JSON, which is not this one's business."""
    async with passing(upstream) as (port, ended):
        answer = await exchange(port, get("/files?x", method="POST", body=b"x" * size))
    assert answer.endswith(b"\r\n\r\n" + b"x" * size) and answer.startswith(b"HTTP/1.1 200")
    call = upstream.call().received()
    assert len(call.body) == size and call.target == b"/v1/files?x"
    assert (ended[0].outcome, ended[0].engine) == (Outcome.ANSWERED, "up")
    assert b"x-understudy-decision-id: " + ended[0].arrival.id.encode() in answer
    assert b"x-understudy-overhead-ms: " in answer


async def test_a_known_length_stays_known_and_chunks_stay_chunks(upstream: Upstream) -> None:
    async with passing(upstream) as (port, _):
        await exchange(port, get("/files", method="POST", body=b"x" * 300_000))
        await exchange(port, chunked(b"ab", b"c"))
    assert upstream.calls[0].header("content-length") == "300000"
    assert upstream.calls[1].header("transfer-encoding") == "chunked" and upstream.calls[1].body == b"abc"


async def test_a_declared_length_over_the_limit_never_reaches_the_upstream(upstream: Upstream) -> None:
    async with passing(upstream) as (port, ended):
        answer = await exchange(port, get("/files", method="POST", body=b"x" * (LIMIT_BYTES + 1)))
    assert answer.startswith(b"HTTP/1.1 413") and b"limit of 400000 bytes" in answer
    assert not upstream.calls and ended[0].outcome is Outcome.REFUSED


async def test_chunks_over_the_limit_are_413_and_the_upstream_sees_no_end(upstream: Upstream) -> None:
    async with passing(upstream) as (port, ended):
        answer = await exchange(port, chunked(*[b"x" * 50_000] * 9))
    assert answer.startswith(b"HTTP/1.1 413") and ended[0].status == 413
    assert not any(call.received().whole for call in upstream.calls)


async def test_an_upload_that_breaks_is_the_clients_fault(upstream: Upstream) -> None:
    async with passing(upstream) as (port, ended):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(chunked(b"abc")[:-5])
        await asyncio.to_thread(upstream.call)
        writer.write(b"zz\r\n")
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 400") and b'"bad_http"' in answer
    assert ended[0].outcome is Outcome.REFUSED


async def test_a_failure_of_the_upstream_stays_its_own(upstream: Upstream) -> None:
    upstream.plays(lambda call: call.reset())
    async with passing(upstream) as (port, ended):
        answer = await exchange(port, chunked(b"abc"))
    assert answer.startswith(b"HTTP/1.1 502") and ended[0].outcome is Outcome.FAILED
