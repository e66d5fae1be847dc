"""An ASGI application in this process, asked as if it were a server: the same request in, the same reply out, no socket.

Knows nothing of what the application is (ASGI 3.0, https://asgi.readthedocs.io/en/latest/specs/www.html).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from multidict import CIMultiDict

from engines.engine import EngineReply, EngineRequest
from engines.errors import StreamBroken
from engines.headers import response_headers

Message = MutableMapping[str, Any]
Application = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]

_AHEAD_CHUNKS = 16
"""How far an application may run ahead of a slow reader."""


class InProcess:
    """Asks `application` below `prefix`, e.g. `/v1`."""

    def __init__(self, application: Application, *, prefix: str, engine: str) -> None:
        self.application = application
        self.prefix = prefix
        self.engine = engine
        self.in_flight = 0

    def stream(self, request: EngineRequest) -> AppExchange:
        """See engines.engine.Engine.stream."""
        return AppExchange(self, request)


class AppExchange:
    """One request and its answer. The application runs in a task of its own, which ends with the context."""

    def __init__(self, owner: InProcess, request: EngineRequest) -> None:
        self._owner = owner
        self._request = request
        self._asked = False
        self._left = asyncio.Event()
        self._head: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._body: asyncio.Queue[bytes | None] = asyncio.Queue(_AHEAD_CHUNKS)
        """None after the last chunk, and after the application's end in any case."""
        self._complete = False
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> EngineReply:
        self._owner.in_flight += 1
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"asgi {self._owner.engine}")
        try:
            head = await self._head
        except BaseException:
            await self.__aexit__()
            raise
        received: CIMultiDict[str] = CIMultiDict(
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in head.get("headers", ())
        )
        return EngineReply(
            head["status"], response_headers(received), self._chunks(), engine=self._owner.engine
        )

    async def __aexit__(self, *_: object) -> None:
        """Tell the application that its client left, and wait until it has let go."""
        self._owner.in_flight -= 1
        self._left.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._head.done() and not self._head.cancelled():
            # Seen: a failure before the head was raised where it was waited for, or nobody waits any more.
            self._head.exception()

    async def _run(self) -> None:
        try:
            await self._owner.application(self._scope(), self._receive, self._send)
        except Exception as error:
            self._fail(error)
        else:
            self._fail(None)
        finally:
            # A full queue has a reader that is slower; it is told by `_complete` instead.
            if not self._body.full():
                self._body.put_nowait(None)

    def _fail(self, error: Exception | None) -> None:
        if not self._head.done():
            # Never its text: it may quote what was asked.
            why = "ended" if error is None else f"failed ({type(error).__name__})"
            self._head.set_exception(
                StreamBroken(
                    f"The engine in this process {why} without an answer.", engine=self._owner.engine
                )
            )

    async def _chunks(self) -> AsyncIterator[bytes]:
        while True:
            if self._task is not None and self._task.done() and self._body.empty():
                break
            chunk = await self._body.get()
            if chunk is None:
                break
            if chunk:
                yield chunk
        if not self._complete:
            raise StreamBroken(
                "The engine in this process ended before its answer was complete.", engine=self._owner.engine
            )

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            body = self._request.body
            if not isinstance(body, bytes):
                body = b"".join([chunk async for chunk in body])
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if not self._head.done():
                self._head.set_result(message)
        elif message["type"] == "http.response.body":
            if not message.get("more_body", False):
                self._complete = True
            if body := message.get("body", b""):
                await self._body.put(bytes(body))
            if self._complete:
                await self._body.put(None)

    def _scope(self) -> MutableMapping[str, Any]:
        request = self._request
        prefix = self._owner.prefix if request.below is None else request.below
        path, _, query = (prefix + request.target).partition("?")
        body = request.body
        headers = [
            (name.lower().encode("latin-1"), value.encode("utf-8", "surrogateescape"))
            for name, value in request.headers.items()
            if name.lower() != "content-length"
        ]
        if isinstance(body, bytes):
            headers.append((b"content-length", str(len(body)).encode()))
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode("latin-1", "replace"),
            "query_string": query.encode("latin-1", "replace"),
            "root_path": "",
            "headers": headers,
            "client": None,
            "server": None,
            "state": {},
        }
