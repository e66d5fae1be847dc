"""An answer that is held back until it was judged: the `send` of a request under a guardrail of answers."""

from __future__ import annotations

from collections.abc import Sequence

from multidict import CIMultiDict

from engines.answers.answer import Body
from engines.errors import EngineError
from gateway.guardrails.guardrail import Guardrail
from gateway.send import Send, Write


class HeldAnswer:
    """See gateway.send.Send. Nothing of it reaches `send` before `release`.

    A stream over `limit_bytes` cannot be judged: it is refused there and then, or passes from there on, where all of
    `guardrails` let pass what they do not judge.
    """

    def __init__(self, send: Send, guardrails: Sequence[Guardrail], limit_bytes: int) -> None:
        self.guardrails = tuple(guardrails)
        self.passed_unjudged = False
        """It was too long, and is on its way."""
        self.broken: EngineError | None = None
        self.status = 0
        """0: nothing came."""
        self.size_bytes = 0
        self._send = send
        self._limit_bytes = limit_bytes
        self._headers: CIMultiDict[str] = CIMultiDict()
        self._reason: str | None = None
        self._chunks: list[bytes] | None = []
        self._streamed = False
        self._write: Write | None = None

    @property
    def gone(self) -> bool:
        """See Send."""
        return self._send.gone

    def whole(
        self, status: int, headers: CIMultiDict[str], body: bytes | None, reason: str | None = None
    ) -> None:
        """See Send."""
        self.status, self._headers, self._reason = status, headers, reason
        self._chunks = None if body is None else [body]
        self.size_bytes = len(body or b"")

    async def begin(self, status: int, headers: CIMultiDict[str], reason: str | None = None) -> Write:
        """See Send."""
        self.status, self._headers, self._reason = status, headers, reason
        self._streamed = True
        return self._keep

    async def end(self) -> None:
        """See Send."""
        if self.passed_unjudged:
            await self._send.end()

    async def break_off(self, error: EngineError) -> None:
        """See Send."""
        if self.passed_unjudged:
            await self._send.break_off(error)
        else:
            self.broken = error

    async def _keep(self, chunk: bytes) -> None:
        if self._write is not None:
            await self._write(chunk)
            return
        assert self._chunks is not None
        self._chunks.append(chunk)
        self.size_bytes += len(chunk)
        if self.size_bytes > self._limit_bytes:
            for guardrail in self.guardrails:
                guardrail.counted("failed")
                guardrail.missed()
            self.passed_unjudged = True
            await self._begin()

    def body(self) -> Body:
        """What came."""
        encoded = "Content-Encoding" in self._headers
        content_type = self._headers.get("Content-Type", "")
        return Body(self._chunks or (), self.size_bytes, content_type, encoded)

    def replace(self, body: bytes, content_type: str, by: str) -> None:
        """Have this sent instead, which the guardrail `by` said."""
        for name in ("Content-Length", "Content-Encoding", "Transfer-Encoding"):
            self._headers.popall(name, None)
        self._headers["Content-Type"] = content_type
        self._headers["x-understudy-guardrail"] = by
        self._chunks, self._streamed = [body], False

    async def release(self) -> None:
        """Send it on. Raises ClientGone."""
        if self._streamed:
            await self._begin()
            await self._send.end()
        else:
            body = None if self._chunks is None else b"".join(self._chunks)
            self._send.whole(self.status, self._headers, body, self._reason)

    async def _begin(self) -> None:
        self._write = await self._send.begin(self.status, self._headers, self._reason)
        chunks, self._chunks = self._chunks or [], []
        for chunk in chunks:
            await self._write(chunk)
