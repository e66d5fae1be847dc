"""The engine whose answers are in a log: it gives the recorded answer to a request, and knows no other.

A request is known by its messages, so that the same one asked in the background (with other bounds or parameters) gets the
same answer. What the log does not hold, such as a judge's prompt, `otherwise` is asked, or nobody.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import orjson
from cachetools import LRUCache
from multidict import CIMultiDict

from engines.engine import Engine, EngineInfo, EngineLoad, EngineReply, EngineRequest
from engines.errors import Unavailable
from learning.bank.importing.formats import Pair

_KEPT = 10_000
"""Answers of the latest requests: who asks again in the background does so soon."""


class Recorded:
    """Implements engines.engine.Engine."""

    def __init__(self, info: EngineInfo, otherwise: Engine | None = None) -> None:
        self.info = info
        self._otherwise = otherwise
        self._answers: LRUCache[bytes, bytes] = LRUCache(_KEPT)

    def knows(self, pair: Pair) -> None:
        """From now on this is the answer to the pair's request."""
        self._answers[_key(pair.fields["messages"])] = _completion(pair)

    def stream(self, request: EngineRequest) -> AbstractAsyncContextManager[EngineReply]:
        """See Engine. Raises Unavailable for what is not in the log, if nobody else is there to be asked."""
        chat = request.chat
        answer = self._answers.get(_key(chat.messages)) if chat is not None else None
        if answer is None and self._otherwise is not None:
            return self._otherwise.stream(request)
        return self._said(answer)

    @asynccontextmanager
    async def _said(self, answer: bytes | None) -> AsyncIterator[EngineReply]:
        if answer is None:
            raise Unavailable("the log holds no answer to this request", engine=self.info.name)
        headers = CIMultiDict({"Content-Type": "application/json", "Content-Length": str(len(answer))})
        yield EngineReply(200, headers, _once(answer), self.info.name)

    def load(self) -> EngineLoad:
        """See Engine."""
        return EngineLoad()

    async def health(self) -> None:
        """See Engine."""

    async def aclose(self) -> None:
        """See Engine."""
        if self._otherwise is not None:
            await self._otherwise.aclose()


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _key(messages: Sequence[Mapping[str, Any]]) -> bytes:
    try:
        told = orjson.dumps(messages, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        # Integers beyond 64 bits.
        told = json.dumps(messages, sort_keys=True).encode()
    return hashlib.blake2b(told, digest_size=16).digest()


def _completion(pair: Pair) -> bytes:
    message = {"role": "assistant", "content": pair.answer}
    told: dict[str, Any] = {
        "id": "chatcmpl-recorded",
        "object": "chat.completion",
        "created": int(pair.created_at_s or 0),
        "model": pair.source,
        "choices": [{"index": 0, "message": message, "finish_reason": pair.finish_reason}],
    }
    if pair.prompt_tokens or pair.completion_tokens:
        told["usage"] = {
            "prompt_tokens": pair.prompt_tokens,
            "completion_tokens": pair.completion_tokens,
            "total_tokens": pair.prompt_tokens + pair.completion_tokens,
        }
    return orjson.dumps(told)
