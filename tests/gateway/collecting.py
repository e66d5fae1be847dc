"""A `send` in memory: an answer collected by whoever asked, with no HTTP anywhere."""

from __future__ import annotations

import asyncio

from multidict import CIMultiDict

from engines.errors import EngineError
from gateway.errors import error_event
from gateway.send import ClientGone, Write


class Collected:
    """See gateway.send.Send."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: CIMultiDict[str] = CIMultiDict()
        self.chunks: list[bytes] = []
        self.ended = False
        self.error: EngineError | None = None
        self.gone = False
        self.began = asyncio.Event()
        """A chunk is here."""

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    def whole(
        self, status: int, headers: CIMultiDict[str], body: bytes | None, reason: str | None = None
    ) -> None:
        self.status, self.headers, self.ended = status, headers, True
        self.chunks = [body] if body is not None else []

    async def begin(self, status: int, headers: CIMultiDict[str], reason: str | None = None) -> Write:
        self.status, self.headers = status, headers
        return self._write

    async def end(self) -> None:
        self.ended = True

    async def break_off(self, error: EngineError) -> None:
        self.error = error
        self.chunks.append(error_event(error.message, error.code))

    async def _write(self, chunk: bytes) -> None:
        if self.gone:
            raise ClientGone
        self.chunks.append(chunk)
        self.began.set()
        await asyncio.sleep(0)
