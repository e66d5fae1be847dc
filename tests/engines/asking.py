"""Engines over a scripted upstream, and the asking of them, as the tests of single, failover and engine need it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
from multidict import CIMultiDict

from engines.chat_json import read_chat_request
from engines.engine import Engine, EngineInfo, EngineReply, EngineRequest
from engines.openai_http import OpenAIHTTP
from engines.servers.breaker import Breaker
from engines.servers.server import Limits
from engines.servers.servers import Servers
from engines.timeouts import Timeouts
from tests.knobs import servers_of

PATIENT = Timeouts(connect_s=60, first_data_s=60, gap_s=60, answer_s=120)


class Clock:
    """A clock that the test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def request(body: bytes = b"{}", target: str = "/chat/completions") -> EngineRequest:
    return EngineRequest("POST", target, CIMultiDict({"Content-Type": "application/json"}), body)


def chat(*, stream: bool = False, headers: dict[str, str] | None = None, **fields: Any) -> EngineRequest:
    """A chat request as the pipeline hands it over."""
    body = {"messages": [{"role": "user", "content": "?"}], "model": "m", "stream": stream, **fields}
    asked = read_chat_request(orjson.dumps(body), body)
    more = {"Content-Type": "application/json", **(headers or {})}
    return EngineRequest("POST", "/chat/completions", CIMultiDict(more), asked.body, asked)


def closed_port() -> int:
    """A port nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@asynccontextmanager
async def engine(port: int, name: str = "e", timeouts: Timeouts = PATIENT) -> AsyncIterator[OpenAIHTTP]:
    """An engine whose base URL is the upstream's, closed afterwards."""
    made = OpenAIHTTP(EngineInfo(name), f"http://127.0.0.1:{port}/v1", timeouts=timeouts)
    try:
        yield made
    finally:
        await made.aclose()


@asynccontextmanager
async def served(
    port: int,
    limits: Limits | None = None,
    breaker: Breaker | None = None,
    *,
    name: str = "e",
    timeouts: Timeouts = PATIENT,
) -> AsyncIterator[Servers]:
    """The same behind a single."""
    async with engine(port, name, timeouts) as inner:
        yield servers_of(inner, limits, breaker)


async def asked(engine: Engine, what: EngineRequest | None = None) -> tuple[int, bytes]:
    """Ask; the status and the whole body."""
    async with engine.stream(what or request()) as reply:
        return reply.status, await read(reply)


async def read(reply: EngineReply) -> bytes:
    return b"".join([chunk async for chunk in reply.chunks])
