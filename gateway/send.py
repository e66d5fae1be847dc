"""Where an answer goes: the one thing that the pipeline needs of whoever asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from multidict import CIMultiDict

from engines.errors import EngineError
from engines.exchanges import Take

SERVER = "understudy"
"""The Server header of answers that bring none of their own."""

Write = Callable[[bytes], Awaitable[None]]
"""Takes one chunk. Awaited, so that a slow reader slows the engine. Raises ConnectionError where nobody reads any more."""


class ClientGone(ConnectionError):
    """The reader left while it was being answered."""


class Send(Protocol):
    """Takes one answer: `whole`; or `begin`, then chunks, then `end` or `break_off`. `headers` become the sender's own.

    One that has a `push`, too, takes chunks there that need no wait, and refuses those that must be written.
    """

    @property
    def gone(self) -> bool:
        """Whether the reader is known to have left."""
        ...

    def whole(
        self, status: int, headers: CIMultiDict[str], body: bytes | None, reason: str | None = None
    ) -> None:
        """An answer in one piece; None for one that has no body."""
        ...

    async def begin(self, status: int, headers: CIMultiDict[str], reason: str | None = None) -> Write:
        """Send the head, and hand over what takes the chunks. Raises ClientGone."""
        ...

    async def end(self) -> None:
        """That was all of it."""
        ...

    async def break_off(self, error: EngineError) -> None:
        """End an answer that broke so that no reader can take it for complete: in a stream, with an error event."""
        ...


class Watcher(Protocol):
    """Is told of an answer as it is sent. Must neither block nor raise."""

    def begins(self, status: int, headers: CIMultiDict[str]) -> None:
        """Its head is about to be sent, with these headers, to which more may be added."""
        ...

    def feed(self, chunk: bytes) -> None:
        """A chunk is sent."""
        ...

    def ends(self, error: EngineError | None = None) -> None:
        """That was all of it; or it broke off with an error."""
        ...

    def goes_on(self) -> bool:
        """Whether an answer whose reader left is read to its end all the same."""
        ...


class Watched:
    """See Send: what is sent through it, a watcher is told of."""

    __slots__ = ("_push", "_send", "_watcher", "_write")

    def __init__(self, send: Send, watcher: Watcher) -> None:
        self._send = send
        self._watcher = watcher
        self._push: Take | None = None
        self._write: Write | None = None
        """None once the reader has left."""

    @property
    def gone(self) -> bool:
        """See Send."""
        return self._send.gone

    def whole(
        self, status: int, headers: CIMultiDict[str], body: bytes | None, reason: str | None = None
    ) -> None:
        """See Send."""
        self._watcher.begins(status, headers)
        if body is not None:
            self._watcher.feed(body)
        self._watcher.ends()
        self._send.whole(status, headers, body, reason)

    async def begin(self, status: int, headers: CIMultiDict[str], reason: str | None = None) -> Write:
        """See Send."""
        self._watcher.begins(status, headers)
        try:
            self._write = await self._send.begin(status, headers, reason)
            self._push = getattr(self._send, "push", None)
        except ConnectionError:
            if not self._watcher.goes_on():
                raise
        return self._watched

    def push(self, chunk: bytes) -> bool:
        """See Send."""
        if self._push is None or not self._push(chunk):
            return False
        self._watcher.feed(chunk)
        return True

    async def end(self) -> None:
        """See Send."""
        self._watcher.ends()
        if self._write is not None:
            await self._send.end()

    async def break_off(self, error: EngineError) -> None:
        """See Send."""
        self._watcher.ends(error)
        if self._write is not None:
            await self._send.break_off(error)

    async def _watched(self, chunk: bytes) -> None:
        self._watcher.feed(chunk)
        if self._write is None:
            return
        try:
            await self._write(chunk)
        except ConnectionError:
            if not self._watcher.goes_on():
                raise
            self._push = self._write = None
