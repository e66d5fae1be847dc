"""Engines that fail as they are told: one HTTP server on a free port, with an engine behind each first part of a path.

`http://127.0.0.1:PORT/NAME/v1` is the engine NAME, and what it does with a request is its `Script`. All that was asked is
kept in `Wall.seen`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from benchmarks.failover.texts import ANSWER

WORD_S = 0.015
"""Between two words of a stream."""
_HEALTH = "/v1/models"
"""Of an engine that is down the gateway asks this in the background."""
_EVENTS = {"Content-Type": "text/event-stream"}


@dataclass
class Seen:
    """One request to one engine. Times are seconds of time.monotonic."""

    engine: str
    path: str
    at_s: float
    body: Any
    """As JSON; None where it is none."""
    gone_at_s: float | None = None
    """When the client left before its answer was over."""


class Call:
    """One request, and the ways to answer it."""

    def __init__(self, request: web.Request, seen: Seen, number: int) -> None:
        self.request = request
        self.seen = seen
        self.number = number
        """Of this engine's requests, from 1."""
        self.body: Mapping[str, Any] = seen.body if isinstance(seen.body, dict) else {}
        self._response: web.StreamResponse | None = None

    @property
    def streams(self) -> bool:
        """Whether a stream is asked for."""
        return bool(self.body.get("stream"))

    async def whole(
        self, status: int, body: Any, headers: Mapping[str, str] | None = None
    ) -> web.StreamResponse:
        """Answer in one piece: bytes as they are (HTML if they are any), else as JSON."""
        kind = "text/html" if isinstance(body, bytes) and body.startswith(b"<") else "application/json"
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(status=status, body=sent, headers={"Content-Type": kind, **(headers or {})})

    async def answer(
        self, text: str = ANSWER, headers: Mapping[str, str] | None = None
    ) -> web.StreamResponse:
        """A whole answer, as a stream where one is asked for."""
        model = self.seen.engine
        usage = {"prompt_tokens": 20, "completion_tokens": len(text.split()), "total_tokens": 20}
        usage["total_tokens"] += usage["completion_tokens"]
        if not self.streams:
            message = {"role": "assistant", "content": text}
            choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
            return await self.whole(
                200,
                {"id": "c", "object": "chat.completion", "model": model, "choices": choices, "usage": usage},
                headers,
            )
        await self.begin(headers)
        await self.words(text)
        await self.event(chunk(model, {}, "stop"))
        await self.event({**chunk(model, {}), "choices": [], "usage": usage})
        return await self.raw(b"data: [DONE]\n\n")

    async def begin(
        self, headers: Mapping[str, str] | None = None, *, role: bool = True
    ) -> web.StreamResponse:
        """The head of a stream, and its first event, which only tells the role."""
        self._response = web.StreamResponse(headers={**_EVENTS, **(headers or {})})
        await self._response.prepare(self.request)
        if role:
            await self.event(chunk(self.seen.engine, {"role": "assistant", "content": ""}))
        return self._response

    async def words(self, text: str, pause_s: float = WORD_S) -> web.StreamResponse:
        """Events with a word each."""
        for number, word in enumerate(text.split()):
            await self.event(chunk(self.seen.engine, {"content": f" {word}" if number else word}))
            await asyncio.sleep(pause_s)
        assert self._response is not None
        return self._response

    async def event(self, told: Any) -> None:
        """One event of a stream."""
        await self.raw(b"data: " + json.dumps(told).encode() + b"\n\n")

    async def raw(self, sent: bytes) -> web.StreamResponse:
        """Bytes of a stream."""
        assert self._response is not None
        await self._response.write(sent)
        return self._response

    async def cut(self) -> web.StreamResponse:
        """Close the connection in the middle of the answer."""
        assert self._response is not None and self.request.transport is not None
        self.request.transport.close()
        return self._response

    async def reset(self) -> web.StreamResponse:
        """Reset the connection before an answer."""
        transport = self.request.transport
        assert transport is not None
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        transport.abort()
        return web.Response()


Script = Callable[[Call], Awaitable[web.StreamResponse]]


def chunk(model: str, delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    """An event of a stream of chat completions."""
    choice = {"index": 0, "delta": dict(delta), "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "model": model, "choices": [choice]}


class Wall:
    """The server's engines, by name, and what they were asked."""

    def __init__(self) -> None:
        self.scripts: dict[str, Script] = {}
        self.seen: list[Seen] = []
        self.origin = ""
        self._numbers: dict[str, int] = {}

    def base_url(self, engine: str) -> str:
        """Where an engine is."""
        return f"{self.origin}/{engine}/v1"

    def calls(self, engine: str) -> list[Seen]:
        """What an engine was asked, in order; not whether it lives."""
        return [seen for seen in self.seen if seen.engine == engine and seen.path != _HEALTH]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer by script."""
        engine, _, path = request.path.lstrip("/").partition("/")
        if engine not in self.scripts:
            return web.Response(status=404)
        try:
            body = json.loads(await request.read())
        except ValueError:
            body = None
        seen = Seen(engine, f"/{path}", time.monotonic(), body)
        self.seen.append(seen)
        number = self._numbers[engine] = self._numbers.get(engine, 0) + 1
        try:
            return await self.scripts[engine](Call(request, seen, number))
        except (asyncio.CancelledError, ConnectionError):
            seen.gone_at_s = time.monotonic()
            raise


@asynccontextmanager
async def standing(wall: Wall) -> AsyncIterator[None]:
    """Serve the wall until the block ends."""
    app = web.Application(client_max_size=64 * 2**20)
    app.router.add_route("*", "/{path:.*}", wall.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(1024)
        await web.SockSite(runner, sock).start()
        wall.origin = f"http://127.0.0.1:{sock.getsockname()[1]}"
        try:
            yield
        finally:
            await runner.cleanup()
