"""Questions to a vLLM server beside the answers it gives: is it alive, how long is its window, how many tokens is this.

Each is bounded in time and size, and none is asked while a request waits for it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from cachetools import LRUCache
from multidict import CIMultiDict

from engines.engine import EngineReply, EngineRequest
from engines.errors import EngineError, Kind, StreamBroken, TimedOut
from engines.loose_json import member, objects, parsed

LIMIT_S = 2.0
"""Limit on each question, in seconds: a server that takes longer tells nothing."""
_LARGEST_BYTES = 8 * 2**20

Stream = Callable[[EngineRequest], AbstractAsyncContextManager[EngineReply]]


async def asked(stream: Stream, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
    """The status and the whole body of an answer. Raises EngineError."""
    headers: CIMultiDict[str] = CIMultiDict({"Content-Type": "application/json"} if body else {})
    try:
        async with asyncio.timeout(LIMIT_S), stream(EngineRequest(method, target, headers, body)) as reply:
            said = bytearray()
            async for chunk in reply.chunks:
                said += chunk
                if len(said) > _LARGEST_BYTES:
                    raise StreamBroken("The page has no end.", engine=reply.engine)
            return reply.status, bytes(said)
    except TimeoutError:
        raise TimedOut(f"No answer within {LIMIT_S:g} s.", kind=Kind.TIMEOUT_ANSWER) from None


async def window_tokens(stream: Stream, target: str, model: str | None) -> int | None:
    """The context window of `model` (None: of the only one) by the list of models at `target`. Raises EngineError."""
    status, said = await asked(stream, "GET", target)
    cards = member(parsed(said), "data") if status == 200 else None
    for card in objects(cards):
        if model in (None, card.get("id")):
            window = card.get("max_model_len")
            if isinstance(window, int) and window > 0:
                return window
    return None


class TokenCounter:
    """Asks `/tokenize`, and remembers the last thousand counts."""

    def __init__(self, stream: Stream, model: str | None) -> None:
        self._stream = stream
        self._model = model
        self._counted: LRUCache[bytes, int] = LRUCache(1024)

    async def count(self, what: str | Sequence[Mapping[str, Any]]) -> int | None:
        """See engines.engine.CountsTokens."""
        question: dict[str, Any] = {"prompt": what} if isinstance(what, str) else {"messages": list(what)}
        if isinstance(what, str):
            question["add_special_tokens"] = False
        if self._model is not None:
            question["model"] = self._model
        body = json.dumps(question, ensure_ascii=False).encode("utf-8", "replace")
        key = hashlib.sha256(body).digest()
        if (known := self._counted.get(key)) is not None:
            return known
        try:
            status, said = await asked(self._stream, "POST", "/tokenize", body)
        except EngineError:
            return None
        count = member(parsed(said), "count") if status == 200 else None
        if not isinstance(count, int):
            return None
        self._counted[key] = count
        return count
