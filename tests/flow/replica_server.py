"""A model server of a process of its own, so that a test can kill it: `python -m tests.flow.replica_server`.

It prints its port. Every answer is the same forty words, one at a time; given the beginning of one, it goes on with it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE, Popen
from typing import Any

from aiohttp import web

TEXT = " ".join(f"word{number}" for number in range(40))
WORD_S = 0.02


@contextmanager
def replica_servers(count: int) -> Iterator[list[tuple[Popen[bytes], int]]]:
    """So many running servers, each with its port; killed afterwards."""
    started: list[Popen[bytes]] = []
    try:
        started += (Popen([sys.executable, "-m", __name__], stdout=PIPE) for _ in range(count))
        found = []
        for process in started:
            assert process.stdout is not None
            found.append((process, int(process.stdout.readline())))
        yield found
    finally:
        for process in started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choices = [] if more else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps(head | {"choices": choices} | more).encode() + b"\n\n"


async def _chat(request: web.Request) -> web.StreamResponse:
    asked = await request.json()
    given = asked["messages"][-1]["content"] if asked.get("continue_final_message") else ""
    assert TEXT.startswith(given.strip())
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(_chunk({"role": "assistant", "content": ""}))
    rest = TEXT[len(given.strip()) :]
    for at, word in enumerate(rest.split(" ")):
        await asyncio.sleep(WORD_S)
        await response.write(_chunk({"content": word if at == 0 else f" {word}"}))
    await response.write(_chunk({}, "stop"))
    await response.write(b"data: [DONE]\n\n")
    return response


async def _models(request: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": "m", "object": "model"}]})


async def _main() -> None:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", _chat)
    app.router.add_get("/v1/models", _models)
    app.router.add_get("/health", _models)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    sockets = site._server.sockets  # type: ignore[union-attr]
    print(sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
