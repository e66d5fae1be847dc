"""An application in this process answers as a server would: heads, bodies as they come, failures, and clients that leave."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from multidict import CIMultiDict

from engines.asgi import Application, InProcess
from engines.engine import EngineRequest
from engines.errors import StreamBroken
from tests.engines.asking import read

START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}


def asked(body: bytes = b"{}", target: str = "/chat/completions?x=1") -> EngineRequest:
    return EngineRequest("POST", target, CIMultiDict({"X-A": "é", "Content-Length": "999"}), body)


def app(*bodies: bytes, then: Exception | None = None) -> Application:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send(dict(START))
        for body in bodies:
            await send({"type": "http.response.body", "body": body, "more_body": True})
        if then is not None:
            raise then
        await send({"type": "http.response.body"})

    return application


def process(application: Application) -> InProcess:
    return InProcess(application, prefix="/v1", engine="local")


async def test_the_application_sees_the_request_and_the_reader_its_answer() -> None:
    seen: dict[str, Any] = {}

    async def echo(scope: Any, receive: Any, send: Any) -> None:
        seen.update(scope)
        message = await receive()
        await send(dict(START))
        await send({"type": "http.response.body", "body": message["body"]})

    async with process(echo).stream(asked(b"hello")) as reply:
        assert (
            reply.status == 200 and reply.headers["Content-Type"] == "text/plain" and reply.engine == "local"
        )
        assert await read(reply) == b"hello"
    assert (seen["path"], seen["query_string"], seen["method"]) == ("/v1/chat/completions", b"x=1", "POST")
    assert dict(seen["headers"]) == {b"x-a": "é".encode(), b"content-length": b"5"}


async def test_what_is_at_the_root_is_asked_there() -> None:
    seen: list[str] = []

    async def note(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["path"])
        await app()(scope, receive, send)

    for below in (None, "", "/v2"):
        async with process(note).stream(replace(asked(target="/rerank"), below=below)) as reply:
            assert reply.status == 200
    assert seen == ["/v1/rerank", "/rerank", "/v2/rerank"]


async def test_chunks_come_one_by_one_and_a_slow_reader_slows_the_application() -> None:
    async with process(app(*[b"x"] * 100)).stream(asked()) as reply:
        assert [chunk async for chunk in reply.chunks] == [b"x"] * 100


async def test_a_failure_before_the_head_tells_no_text() -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("secret prompt")

    with pytest.raises(StreamBroken, match="ValueError") as error:
        async with process(broken).stream(asked()):
            pass
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("chunks", [1, 16, 40])
async def test_a_failure_in_the_middle_is_never_a_quiet_end(chunks: int) -> None:
    got = []
    with pytest.raises(StreamBroken):
        async with process(app(*[b"x"] * chunks, then=ValueError("x"))).stream(asked()) as reply:
            async with asyncio.timeout(60):
                async for chunk in reply.chunks:
                    got.append(chunk)  # noqa: PERF401 - what came before the failure counts
    assert got == [b"x"] * chunks


async def test_one_that_ends_without_an_answer_is_a_failure() -> None:
    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        return

    with pytest.raises(StreamBroken):
        async with process(nothing).stream(asked()):
            pass


async def test_leaving_cancels_the_application_and_waits_until_it_let_go() -> None:
    let_go = asyncio.Event()

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await send(dict(START))
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
        finally:
            await asyncio.sleep(0)
            let_go.set()

    local = process(endless)
    async with local.stream(asked()) as reply:
        assert await anext(reply.chunks) == b"x" and local.in_flight == 1
    assert let_go.is_set() and local.in_flight == 0


async def test_an_application_that_only_listens_learns_of_the_leaving_too() -> None:
    heard: list[str] = []

    async def listening(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(dict(START))
        try:
            heard.append((await receive())["type"])
        except asyncio.CancelledError:
            heard.append("cancelled")
            raise

    async with process(listening).stream(asked()):
        pass
    assert heard and heard[0] in ("http.disconnect", "cancelled")
