"""A small real HTTP server with vLLM's pages (health, figures, models, tokenizer) and a chat that a test controls.

Shapes as seen on vLLM 0.32. tests/vllm asks the real one.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.aiohttp_server import aiohttp_server
from tests.flow.line import completion

Chat = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]


@dataclass
class Pages:
    """What the server says, and what it was asked."""

    url: str = ""
    running: int = 0
    waiting: int = 0
    kv_use: float = 0.0
    healthy: bool = True
    window: int | None = 4096
    model: str = "tiny"
    chat: Chat | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of chat requests."""
    headers: list[dict[str, str]] = field(default_factory=list)
    """Of the same."""
    paths: list[str] = field(default_factory=list)
    """Everything that was asked for, in order."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.path)
        match request.path:
            case "/health":
                return web.Response(status=200 if self.healthy else 503)
            case "/metrics":
                return web.Response(text=self._figures())
            case "/v1/models":
                card = {"id": self.model, "object": "model", "max_model_len": self.window}
                return web.json_response({"object": "list", "data": [card]})
            case "/tokenize":
                asked = await request.json()
                text = asked.get("prompt") or "".join(m["content"] for m in asked["messages"])
                return web.json_response({"count": len(text.split()), "max_model_len": self.window})
            case "/v1/chat/completions":
                body = await request.read()
                assert int(request.headers["Content-Length"]) == len(body)
                self.asked.append(json.loads(body))
                self.headers.append(dict(request.headers))
                if self.chat is not None:
                    return await self.chat(request, self.asked[-1])
                return web.json_response(completion("Yes."))
        return web.json_response({"detail": "Not Found"}, status=404)

    def _figures(self) -> str:
        labels = f'{{engine="0",model_name="{self.model}"}}'
        return (
            f"vllm:num_requests_running{labels} {self.running}\n"
            f"vllm:num_requests_waiting{labels} {self.waiting}\n"
            f"vllm:kv_cache_usage_perc{labels} {self.kv_use}\n"
            f"vllm:request_success_total{labels} 5.0\n"
        )


@asynccontextmanager
async def pages() -> AsyncIterator[Pages]:
    """The server on a free port."""
    made = Pages()
    async with aiohttp_server(made.handle) as origin:
        made.url = f"{origin}/v1"
        yield made
