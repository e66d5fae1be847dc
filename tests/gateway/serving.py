"""The gateway's own server in this process, around any handler, for tests that need no child process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from engines.errors import RequestError
from gateway.admission import Admission
from gateway.endpoints.handler import Handler
from gateway.entry import EntryHandler
from gateway.keys import NoAuthentication
from gateway.server import ServerLimits, serve
from router.finished import Journey
from understudy.processes.listening import bind

Answering = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class OneHandler:
    """Routes everything to one handler, with the target as it came."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def find(self, method: str, target: str) -> tuple[Handler, str, bool]:
        if target.startswith("/404"):
            raise RequestError("Not here.", status=404, code="unknown_url")
        return self._handler, target, True


@asynccontextmanager
async def served(
    handler: Answering, *, stop: asyncio.Event | None = None, linger_s: float = 0.0, **listen: Any
) -> AsyncIterator[int]:
    """The port on which `handler` answers, until `stop` is set, or the block is left. `linger_s`: see gateway.server."""
    usual = {"max_json_bytes": 2**25, "max_header_bytes": 2**15, "body_gap_s": 30.0, "max_connections": 1000}
    limits = ServerLimits(**{**usual, "grace_s": 0.5, "cors": (), **listen})
    with bind("127.0.0.1", 0) as sock:
        stop, listening = stop or asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(
                serve(
                    handler,
                    limits,
                    sock=sock,
                    stop=stop,
                    listening=listening.set,
                    linger_s=lambda: linger_s,
                )
            )
            await listening.wait()
            try:
                yield sock.getsockname()[1]
            finally:
                stop.set()


def open_admission() -> Admission:
    """What stands before handlers where no key has limits."""
    return Admission(None, None, priced=lambda model, path: True, max_json_bytes=2**20, max_wait_s=60.0)


@asynccontextmanager
async def entry(handler: Handler, **listen: Any) -> AsyncIterator[tuple[int, list[Journey]]]:
    """The port of an entry handler before `handler`, and the requests that have ended."""
    ended: list[Journey] = []
    began: list[None] = []
    through = EntryHandler(
        OneHandler(handler),
        NoAuthentication(),
        open_admission(),
        began=lambda: began.append(None),
        ended=ended.append,
    )
    async with served(through, **listen) as port:
        yield port, ended
    assert len(began) == len(ended)


async def exchange(port: int, data: bytes) -> bytes:
    """Send bytes; everything that comes back until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        async with asyncio.timeout(60):
            return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


def get(target: str = "/x", *headers: str, method: str = "GET", body: bytes = b"") -> bytes:
    """A request after which the server closes."""
    lines = [f"{method} {target} HTTP/1.1", "Host: x", "Connection: close", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body
