"""The whole line inside the test's own event loop: a configured gateway, and upstreams that answer by script.

Everything between client and upstream is real: sockets, HTTP, SQLite, the embedder.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from gateway.server import ServerLimits, serve
from router.embedding.model import users_models
from tests.aiohttp_server import aiohttp_server
from tests.patience import PATIENCE_S, until
from understudy.build import Gateway
from understudy.processes.listening import bind
from understudy.settings.file import parse_config
from understudy.settings.knobs import knobs_of

MODELS = users_models()
"""Shared by all tests: building the embedding model takes seconds."""


@dataclass
class Asked:
    """One request that reached an upstream."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        parsed = json.loads(self.body)
        assert isinstance(parsed, dict)
        return parsed


Script = Callable[[web.Request, Asked], Awaitable[web.StreamResponse]]


@dataclass
class Upstream:
    """An OpenAI-like server. `says` is its answer to every chat; `script`, when set, answers instead."""

    says: str = "Forty-two."
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    script: Script | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        asked = Asked(request.path_qs, request.headers.copy(), await request.read())
        self.asked.append(asked)
        if self.script is not None:
            return await self.script(request, asked)
        if request.path.endswith("/models"):
            return web.json_response(
                {"object": "list", "data": [{"id": "upstream-model", "object": "model"}]}
            )
        if request.path.endswith("/embeddings"):
            return web.json_response(
                {"object": "list", "data": [{"embedding": [0.5, 0.25]}], "n": len(self.asked)}
            )
        if asked.json.get("stream"):
            return await self.stream(request, asked)
        return web.json_response(completion(self.says, asked.json.get("n") or 1))

    async def stream(self, request: web.Request, asked: Asked, *, done: bool = True) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in events(
            self.says, usage=bool((asked.json.get("stream_options") or {}).get("include_usage"))
        ):
            await response.write(event)
        if done:
            await response.write(b"data: [DONE]\n\n")
        return response


def completion(text: str, n: int = 1, **more: Any) -> dict[str, Any]:
    """A chat completion."""
    message = {"role": "assistant", "content": text, "refusal": None} | more.pop("message", {})
    finish = more.pop("finish_reason", "stop")
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "m",
        "choices": [
            {"index": i, "message": message, "logprobs": None, "finish_reason": finish} for i in range(n)
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    } | more


def events(text: str, *, usage: bool) -> list[bytes]:
    """The same as a stream, without [DONE]."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "m"}
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": ""},
        *({"content": w} for w in text.split(" ")),
        {},
    ]
    chunks: list[dict[str, Any]] = []
    for i, delta in enumerate(deltas):
        finish = "stop" if i == len(deltas) - 1 else None
        chunks.append(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    if usage:
        counted = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        chunks.append(head | {"choices": [], "usage": counted})
    return [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]


@asynccontextmanager
async def upstream() -> AsyncIterator[Upstream]:
    """A running upstream on a free port."""
    made = Upstream()
    async with aiohttp_server(made.handle) as origin:
        made.url = f"{origin}/v1"
        yield made


@dataclass
class Line:
    """A running gateway and a client of it."""

    url: str
    gateway: Gateway
    session: aiohttp.ClientSession

    async def chat(
        self, question: str | list[dict[str, Any]], headers: Mapping[str, str] | None = None, **fields: Any
    ) -> Got:
        """Ask, and wait until what came of it is remembered."""
        messages = [{"role": "user", "content": question}] if isinstance(question, str) else question
        body = {"model": fields.pop("model", "gpt-4o"), "messages": messages} | fields
        return await self.post("/chat/completions", body, headers)

    async def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Got:
        """POST JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = CIMultiDict(headers or {})
        sent.setdefault("Content-Type", "application/json")
        async with self.session.post(self.url + path, data=data, headers=sent) as response:
            got = Got(response.status, response.headers.copy(), await response.read())
        await self.settled()
        return got

    async def settled(self) -> None:
        """Wait until everything answered so far is committed and indexed."""
        memory = self.gateway.memory
        if memory is None or memory.store.reads.inline:
            await until(self.gateway.settled, "what was answered is committed and indexed")
            return
        end = time.monotonic() + PATIENCE_S
        while not await memory.store.reads(self.gateway.settled):
            assert time.monotonic() < end, "what was answered is not committed and indexed"
            await asyncio.sleep(0.01)


@dataclass
class Got:
    """An answer as the client saw it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        parsed = json.loads(self.body)
        assert isinstance(parsed, dict)
        return parsed

    @property
    def text(self) -> str:
        """What was said, streamed or not."""
        if not self.headers["Content-Type"].startswith("text/event-stream"):
            return str(self.json["choices"][0]["message"]["content"])
        return "".join(c["delta"].get("content") or "" for e in self.events if e for c in e["choices"])

    @property
    def events(self) -> list[dict[str, Any]]:
        """The stream's events; [DONE] is checked for and left out."""
        found = [line[6:] for line in self.body.decode().splitlines() if line.startswith("data: ")]
        assert found[-1] == "[DONE]"
        return [json.loads(event) for event in found[:-1]]

    @property
    def hit(self) -> bool:
        return "; hit" in self.headers.get("Cache-Status", "")


@asynccontextmanager
async def line(config: dict[str, Any]) -> AsyncIterator[Line]:
    """A gateway built from `config` on a free port."""
    # On a slow machine a test's engine is silent for longer than that, and scripts answer chats only.
    config = {"log": {"requests": False}, "health": {"every_s": None}, **config}
    if "models" in config:
        # Most tests are about something else than proof, which takes a hundred comparisons.
        config["models"] = {name: {"proof": "off"} | model for name, model in config["models"].items()}
    if (memory := config.get("memory")) and memory.get("examples", {}).get("enabled", True):
        # Whether something is late is for the tests of deadlines to say: on a busy machine all of it is.
        patient = {"retrieve_deadline_ms": 10_000, "embedding_deadline_ms": 10_000}
        advanced = {"embedding_cache_dir": str(MODELS), **patient, **memory.get("advanced", {})}
        config = config | {"memory": memory | {"advanced": advanced}}
    if config.get("memory"):
        # Most tests are one client, who needs no credential to be known by.
        config = config | {"memory": {"anonymous": True, **config["memory"]}}
    settings = parse_config(config)
    gateway = await asyncio.to_thread(_build, settings)
    stop, listening = asyncio.Event(), asyncio.Event()
    with bind("127.0.0.1", 0) as sock:
        url = f"http://127.0.0.1:{sock.getsockname()[1]}/v1"
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(
                    serve(
                        gateway.handle,
                        knobs_of(ServerLimits, settings.listen, settings.listen.advanced),
                        sock=sock,
                        stop=stop,
                        listening=listening.set,
                    )
                )
                await listening.wait()
                gateway.start()
                connector = aiohttp.TCPConnector(limit=0)
                async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
                    made = Line(url, gateway, session)
                    try:
                        await until(lambda: not gateway.problems(), "the gateway ready")
                        yield made
                    finally:
                        stop.set()
        finally:
            await gateway.aclose()


def _build(settings: Any) -> Gateway:
    return Gateway(settings)
