"""Where an answer goes: the one thing that the pipeline needs of whoever asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from multidict import CIMultiDict

from engines.errors import EngineError

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
