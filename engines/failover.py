"""Several engines in turn: the first whose answer begins is the one. After its first chunk see engines.continuation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from engines.engine import Engine, EngineReply, EngineRequest
from engines.errors import EngineError
from engines.guard import RETRYABLE_STATUS
from engines.sse import begins_with_error

_HELD_BYTES = 256 * 1024
_TOO_LONG = (b"context_length_exceeded", b"maximum context length", b"maximum model length", b"max_model_len")


@dataclass(frozen=True, slots=True)
class Try:
    """One engine and what to ask it."""

    engine: Engine
    request: EngineRequest
    lengthened: bool = False
    """Examples of ours made the request longer than it came: too long for this engine, it may fit the next one."""


class Failover:
    """Context manager over the answer of the first engine that gives one.

    A request that our examples made too long for an engine's context window goes to the next try; one that came too long
    goes to `larger`. When every engine fails, the first
    error *answer* is passed on as it came; without one, the first EngineError is raised.
    """

    def __init__(self, tries: Sequence[Try], larger: Try | None = None) -> None:
        self._tries = tries
        self._larger = larger
        self._stack = AsyncExitStack()
        self.index = 0
        """Which of the tries answered; their number for `larger`."""
        self.failures: list[str] = []
        """Names of the engines that failed before one answered."""

    async def __aenter__(self) -> EngineReply:
        held: tuple[int, EngineReply] | None = None
        first_error: EngineError | None = None
        for index, attempt in enumerate(self._tries):
            self.index = index
            try:
                reply = await self._stack.enter_async_context(attempt.engine.stream(attempt.request))
            except EngineError as error:
                first_error = first_error or error
                self.failures.append(attempt.engine.info.name)
                continue
            another = index + 1 < len(self._tries)
            if reply.status == 400 and attempt.lengthened and another:
                reply, too_long = await self._judged(reply)
                await self._stack.aclose()
                if not too_long:
                    return reply
                self.failures.append(attempt.engine.info.name)
                held = held or (index, reply)
                continue
            if reply.status == 400 and self._larger is not None:
                return await self._or_larger(reply, self._larger)
            if reply.status not in RETRYABLE_STATUS and not (another and await _begins_with_error(reply)):
                return reply
            self.failures.append(attempt.engine.info.name)
            if held is None:
                held = index, await self._held(reply)
            await self._stack.aclose()
        if held is not None:
            self.index, reply = held
            return reply
        assert first_error is not None
        raise first_error

    async def __aexit__(self, *_: object) -> None:
        await self.let_go()

    async def let_go(self) -> None:
        """Leave the engine that answered, whatever is left of its answer."""
        await self._stack.aclose()

    async def _or_larger(self, reply: EngineReply, larger: Try) -> EngineReply:
        held, too_long = await self._judged(reply)
        await self._stack.aclose()
        if too_long:
            try:
                bigger = await self._stack.enter_async_context(larger.engine.stream(larger.request))
            except EngineError:
                pass
            else:
                self.index = len(self._tries)
                return bigger
        return held

    async def _judged(self, reply: EngineReply) -> tuple[EngineReply, bool]:
        """A refusal, held, and whether it says that the request is too long."""
        held = await self._held(reply)
        body = b"".join([chunk async for chunk in held.chunks])
        held.chunks = _once(body)
        return held, any(sign in body for sign in _TOO_LONG)

    async def _held(self, reply: EngineReply) -> EngineReply:
        """An error answer read into memory, so that its engine can be let go."""
        body = bytearray()
        try:
            async for chunk in reply.chunks:
                body += chunk
                if len(body) > _HELD_BYTES or (reply.status < 400 and begins_with_error(body)):
                    # What follows is let go: no length may promise it.
                    reply.headers.popall("Content-Length", None)
                    break
        except EngineError:
            reply.headers.popall("Content-Length", None)
        reply.chunks = _once(bytes(body))
        return reply


async def _begins_with_error(reply: EngineReply) -> bool:
    """Whether a stream's first event is an error. The guard has its first chunk in hand, so this waits for nothing."""
    if reply.status >= 400:
        return False
    first = await anext(reply.chunks, b"")
    reply.chunks = _followed(first, reply.chunks)
    return begins_with_error(first)


async def _followed(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk


async def _once(body: bytes) -> AsyncIterator[bytes]:
    if body:
        yield body
