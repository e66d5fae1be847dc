"""The Vercel AI SDK runs unchanged: by each of its providers repeats hit, plain and streamed, and all is booked."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.flow.line import Asked, Upstream, line, upstream
from tests.flow.messages_upstream import TEXT
from tests.flow.messages_upstream import answers as messages
from tests.flow.test_line_completions import answers as completions
from tests.flow.test_sdk_node import HERE, installed

pytestmark = [pytest.mark.node, pytest.mark.slow]
PRICE = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 2.0}
APIS = ("responses", "chat", "completions", "messages", "azure")


async def responses(request: web.Request, asked: Asked) -> web.StreamResponse:
    """An answer of the Responses API, whole or as events."""
    part = {"type": "output_text", "text": TEXT, "annotations": [], "logprobs": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    usage = {
        "input_tokens": 7,
        "output_tokens": 3,
        "total_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    answer: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": asked.json["model"],
        "output": [item],
        "usage": usage,
    }
    if not asked.json.get("stream"):
        return web.json_response(answer)
    at = {"item_id": "msg_1", "output_index": 0}
    begun = answer | {"status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": item | {"content": []}},
        {"type": "response.content_part.added", **at, "content_index": 0, "part": part | {"text": ""}},
        {"type": "response.output_text.delta", **at, "content_index": 0, "delta": TEXT, "logprobs": []},
        {"type": "response.output_text.done", **at, "content_index": 0, "text": TEXT, "logprobs": []},
        {"type": "response.content_part.done", **at, "content_index": 0, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": answer},
    ]
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for number, event in enumerate(events):
        said = json.dumps(event | {"sequence_number": number})
        await response.write(f"event: {event['type']}\ndata: {said}\n\n".encode())
    return response


async def test_every_provider_of_it(tmp_path: Path) -> None:
    folder = installed(HERE / "ai")
    shutil.copy(HERE / "ai" / "walk.mjs", folder)
    async with upstream() as behind:
        behind.says = TEXT

        async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
            if "/messages" in request.path:
                return await messages(request, asked)
            if request.path.endswith("/responses"):
                return await responses(request, asked)
            if request.path.endswith("/chat/completions"):
                return await Upstream(TEXT).handle(request)
            return await completions(request, asked)

        behind.script = script
        engine = {"base_url": behind.url, "api_key": "own", "price": PRICE}
        azure = engine | {"kind": "azure", "base_url": behind.url.removesuffix("/v1")}
        config = {
            "engines": {"openai": engine, "claude": engine | {"kind": "anthropic"}, "azure": azure},
            "models": {
                "gpt-4o": {"engines": ["openai"]},
                "claude": {"engines": ["claude"]},
                "gpt-azure": {"engines": ["azure"]},
            },
            "memory": {"data_dir": str(tmp_path / "data"), "examples": {"enabled": False}},
        }
        async with line(config) as gate:
            process = await asyncio.create_subprocess_exec(
                *("node", "walk.mjs", gate.url),
                cwd=folder,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={
                    k: v for k, v in os.environ.items() if not k.startswith(("OPENAI", "ANTHROPIC", "AZURE"))
                },
            )
            out, err = await asyncio.wait_for(process.communicate(), 180)
            assert process.returncode == 0, err.decode()
            await gate.settled()
            seen = json.loads(out)
            for api in APIS:
                (first, *_, missed), (again, *_, hit) = seen[api]["plain"]
                assert first == again and first, api
                assert "; fwd=miss" in missed and "; hit" in hit, api
                (first, missed), (again, hit) = seen[api]["streamed"]
                assert first == again and first, api
                assert "; fwd=miss" in missed and "; hit" in hit, api
            assert len(behind.asked) == 2 * len(APIS)
            memory = gate.gateway.memory
            assert memory is not None
            sums = {one.api: one.amounts for one in memory.store.decisions.usage.sums(["api"])}
            assert sums["chat"].requests == 8
            for api in ("responses", "completions", "messages"):
                assert sums[api].requests == 4 and sums[api].hits == 2 and sums[api].cost_usd > 0
