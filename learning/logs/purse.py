"""Engines that are asked for real, but only while a sum of money is left.

What a request can cost at most is put aside before it is asked, and what it did cost is booked at its end: from the
engine's own count of tokens where it gives one. The sum is exceeded by one answer at most that is longer than expected.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from engines.answers.answer import Body
from engines.asking import most_usd
from engines.chat import Usage, tokens_in_bytes
from engines.codecs.table import codec_of
from engines.engine import Engine, EngineInfo, EngineLoad, EngineReply, EngineRequest
from engines.errors import ConnectFailed, Unavailable
from learning.outcomes.judging_sample import most_tokens

_EXPECTED_TOKENS = 1024
"""The expected length of an answer to a request that names no bound."""


class Purse:
    """A sum in US dollars, and how much of it is gone."""

    def __init__(self, usd: float) -> None:
        self.usd = usd
        self.spent_usd = 0.0
        self.requests: dict[str, int] = {}
        """Answered requests by engine."""
        self.refused = 0
        """Requests that were not asked because too little was left."""
        self.in_flight = 0
        self._put_aside_usd = 0.0

    def put_aside(self, usd: float) -> bool:
        """Set a sum aside if that much is left: nobody else may spend it. Nothing may be spent of nothing, however cheap."""
        if self.usd <= 0.0 or self.spent_usd + self._put_aside_usd + usd > self.usd:
            self.refused += 1
            return False
        self._put_aside_usd += usd
        self.in_flight += 1
        return True

    def settle(self, put_aside_usd: float, usd: float, engine: str, *, answered: bool) -> None:
        """Book what a request did cost."""
        self._put_aside_usd -= put_aside_usd
        self.spent_usd += usd
        self.in_flight -= 1
        if answered:
            self.requests[engine] = self.requests.get(engine, 0) + 1


class Paid:
    """Implements engines.engine.Engine: asks `engine` while the purse has money."""

    def __init__(self, engine: Engine, purse: Purse) -> None:
        self._engine = engine
        self._purse = purse

    @property
    def info(self) -> EngineInfo:
        """See Engine."""
        return self._engine.info

    def stream(self, request: EngineRequest) -> AbstractAsyncContextManager[EngineReply]:
        """See Engine. Raises Unavailable when too little money is left."""
        return self._paid(request)

    @asynccontextmanager
    async def _paid(self, request: EngineRequest) -> AsyncIterator[EngineReply]:
        price, body = self.info.price, request.body if isinstance(request.body, bytes) else b""
        bound = most_tokens(request.chat.fields) if request.chat is not None else 0
        most = most_usd(price, len(body), bound or _EXPECTED_TOKENS)
        if not self._purse.put_aside(most):
            raise Unavailable("the budget is spent", engine=self.info.name)
        # What breaks off may have been paid in full.
        cost_usd, answered, said = most, False, bytearray()
        try:
            async with self._engine.stream(request) as reply:
                reply.rest, reply.first, reply.flow = _copied(reply.chunks, said), None, None
                answered = reply.status < 400
                if not answered:
                    cost_usd = 0.0
                yield reply
                usage = _usage(request, bytes(said)) if answered else None
                if usage is not None:
                    cost_usd = price.cost_usd(usage) or 0.0
        except (ConnectFailed, Unavailable):
            cost_usd = 0.0
            raise
        finally:
            self._purse.settle(most, cost_usd, self.info.name, answered=answered)

    def load(self) -> EngineLoad:
        """See Engine."""
        return self._engine.load()

    async def health(self) -> None:
        """See Engine."""
        await self._engine.health()

    async def aclose(self) -> None:
        """See Engine."""
        await self._engine.aclose()


async def _copied(chunks: AsyncIterator[bytes], into: bytearray) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        into += chunk
        yield chunk


def _usage(request: EngineRequest, said: bytes) -> Usage | None:
    """Tokens of an answer in one piece; None if it is not whole."""
    assembled = codec_of(request.chat).assembled(Body((said,), len(said), "application/json"))
    if assembled is None or not assembled.whole:
        return None
    return assembled.used(tokens_in_bytes(len(request.body) if isinstance(request.body, bytes) else 0))
