"""A simulated engine that batches and caches, over HTTP and in real time: `python -m benchmarks.applications.engine_server
FASTER CAP PORT`. It is FASTER times as fast as one of today; CAP: tokens in flight at most, 0 for no cap."""

from __future__ import annotations

import sys
from dataclasses import replace

from aiohttp import web
from multidict import CIMultiDict

from benchmarks.batching.batch import ENGINE_OF_TODAY, Rules, Speed
from benchmarks.batching.engine import BatchingEngine
from engines.engine import EngineInfo, EngineRequest


def speed(faster: float) -> Speed:
    """Of an engine of today, so many times as fast."""
    now = ENGINE_OF_TODAY
    return replace(
        now,
        step_s=now.step_s / faster,
        kv_token_s=now.kv_token_s / faster,
        prefill_token_s=now.prefill_token_s / faster,
    )


def application(engine: BatchingEngine) -> web.Application:
    """Chat completions by the engine, and a list of models."""

    async def chat(request: web.Request) -> web.StreamResponse:
        asked = EngineRequest("POST", "/chat/completions", CIMultiDict(), await request.read())
        async with engine.stream(asked) as reply:
            response = web.StreamResponse(status=reply.status, headers=reply.headers)
            await response.prepare(request)
            async for chunk in reply.chunks:
                await response.write(chunk)
        return response

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "bench", "object": "model"}]})

    made = web.Application(client_max_size=2**26)
    made.add_routes([web.post("/v1/chat/completions", chat), web.get("/v1/models", models)])
    return made


def main() -> None:
    """Serve until the process is ended."""
    faster, cap, port = sys.argv[1:]
    rules = Rules(cap_tokens=int(cap) or None)
    engine = BatchingEngine(EngineInfo("bench"), speed(float(faster)), rules)
    web.run_app(application(engine), host="127.0.0.1", port=int(port), print=None)


if __name__ == "__main__":
    main()
