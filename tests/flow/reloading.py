"""A gateway process whose configuration file tests write anew, and the orders they give it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from tests.flow.line import Asked, Upstream, upstream
from tests.flow.process import Gateway, running
from understudy.processes.control import Verdict, control_folder, order

_WITHIN_S = 600.0


@dataclass
class Site:
    """See the module."""

    folder: Path
    config: dict[str, Any]
    behind: Upstream
    process: Gateway
    session: aiohttp.ClientSession

    def write(self, **changes: Any) -> None:
        """Change top-level settings of the file."""
        self.config |= changes
        (self.folder / "config.yaml").write_text(json.dumps(self.config))

    async def order(self) -> Verdict:
        """Do as `understudy reload` does."""
        folder = control_folder(self.folder / "data")
        return await asyncio.to_thread(order, folder, "reload", None, timeout_s=_WITHIN_S)

    async def ready(self) -> dict[str, Any]:
        """What /readyz says."""
        async with self.session.get(f"{self.process.origin}/readyz") as answer:
            found: dict[str, Any] = await answer.json()
        return found

    async def chat(
        self, model: str, question: str, *, key: str = "sk-client", **fields: Any
    ) -> tuple[int, bytes]:
        """Status and body of an answer."""
        body = {"model": model, "messages": [{"role": "user", "content": question}], **fields}
        headers = {"Authorization": f"Bearer {key}"}
        url = f"{self.process.url}/chat/completions"
        async with self.session.post(url, json=body, headers=headers) as answer:
            return answer.status, await answer.read()


def config_of(url: str, folder: Path, **more: Any) -> dict[str, Any]:
    """One engine, `a`, for the model `m`; memory without examples."""
    return {
        "listen": {"port": 0, "grace_s": 120},
        "engines": {"a": {"base_url": url, "model": "m-a", "api_key": "sk-a"}},
        "models": {"m": {"engines": ["a"]}},
        "memory": {"data_dir": str(folder / "data"), "examples": {"enabled": False}},
        "health": {"every_s": None},
        **more,
    }


@asynccontextmanager
async def site(folder: Path, workers: int = 1, admin: str = "off") -> AsyncIterator[Site]:
    """A running gateway, and an upstream behind it that tells which model it was asked for."""
    # A connection of its own for each request: a kept one may lead to the worker that was replaced.
    connector = aiohttp.TCPConnector(force_close=True)
    async with upstream() as behind, aiohttp.ClientSession(connector=connector) as session:
        config = config_of(behind.url, folder)
        config["listen"] |= {"workers": workers}
        (folder / "config.yaml").write_text(json.dumps(config))
        arguments = ("--config", str(folder / "config.yaml"), "--admin", admin)
        made = running(*arguments, workers=workers)
        process = await asyncio.to_thread(made.__enter__)
        try:
            yield Site(folder, config, behind, process, session)
        finally:
            await asyncio.to_thread(made.__exit__, None, None, None)


class Held:
    """An upstream's streams: the first chunk goes at once, the rest once they are let go."""

    def __init__(self, behind: Upstream) -> None:
        self._behind = behind
        self.go = asyncio.Event()
        self.begun = 0
        behind.script = self

    async def __call__(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        if not asked.json.get("stream"):
            return web.json_response(
                {"id": "c", "object": "chat.completion", "created": 1, "model": asked.json["model"]}
                | {"choices": [_choice(asked.json["model"])]}
            )
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(_event({"role": "assistant", "content": asked.json["model"]}))
        self.begun += 1
        await self.go.wait()
        await response.write(_event({"content": " to its end"}))
        await response.write(_event({}, "stop") + b"data: [DONE]\n\n")
        return response


def _choice(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "refusal": None}
    return {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "x", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"
