"""Asks streams for their usage where that is understood: an engine that refuses to be asked is asked once more without.

Refuses to know why the gateway wants to know (gateway.limits.bounding says when).
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from engines.engine import Engine, EngineReply, EngineRequest
from engines.error_texts import hold_error

_NAMES = (b"stream_options", b"include_usage")


def asking(engine: Engine, request: EngineRequest) -> AbstractAsyncContextManager[EngineReply]:
    """The engine's answer, to be entered; without its usage if it refuses to be asked for that."""
    return engine.stream(request) if request.without_usage is None else _Asking(engine, request)


class _Asking(AbstractAsyncContextManager["EngineReply"]):
    def __init__(self, engine: Engine, request: EngineRequest) -> None:
        self._engine = engine
        self._request = request
        self._context = engine.stream(request)

    async def __aenter__(self) -> EngineReply:
        reply = await self._context.__aenter__()
        try:
            refused = await _refused(reply)
        except BaseException:
            await self._context.__aexit__(None, None, None)
            raise
        if not refused:
            return reply
        await self._context.__aexit__(None, None, None)
        assert self._request.without_usage is not None
        body = await asyncio.to_thread(self._request.without_usage)
        self._context = self._engine.stream(replace(self._request, body=body, without_usage=None))
        reply = await self._context.__aenter__()
        if reply.status < 400:
            self._engine.info.tells_usage.refused()
        return reply

    async def __aexit__(self, *_: object) -> None:
        await self._context.__aexit__(None, None, None)


async def _refused(reply: EngineReply) -> bool:
    if not 400 <= reply.status < 500:
        return False
    await hold_error(reply)
    return any(name in (reply.first or b"") for name in _NAMES)
