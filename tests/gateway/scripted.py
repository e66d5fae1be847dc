"""An engine that answers a stream of two events, and a request for it, without a server."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from multidict import CIMultiDict

from engines.chat_json import read_chat_request
from engines.engine import EngineInfo, EngineLoad, EngineReply, EngineRequest, Price
from router.asked import Arrival, Asked, Controls


class Scripted:
    """An engine of a name and a price."""

    def __init__(self, name: str) -> None:
        self.info = EngineInfo(name, price=Price(1.0, 2.0))

    @asynccontextmanager
    async def stream(self, request: EngineRequest) -> AsyncIterator[EngineReply]:
        headers = CIMultiDict({"Content-Type": "text/event-stream"})
        yield EngineReply(200, headers, self._chunks(), self.info.name)

    async def _chunks(self) -> AsyncIterator[bytes]:
        yield b"data: {}\n\n"
        yield b"data: [DONE]\n\n"

    def load(self) -> EngineLoad:
        return EngineLoad()

    async def health(self) -> None:
        return None

    async def aclose(self) -> None:
        pass


def asked(controls: Controls | None = None, **fields: Any) -> Asked:
    """A chat request as the pipeline reads it."""
    made = {"model": "m", "messages": [{"role": "user", "content": "Q?"}]} | fields
    arrival = Arrival("id1", time.perf_counter(), time.time())
    chat = read_chat_request(json.dumps(made).encode(), made)
    headers = CIMultiDict({"Content-Type": "application/json"})
    return Asked(arrival, "/chat/completions", headers, chat, controls or Controls())
