"""The upstream of benchmarks.soak: chat completions, Responses, text completions and embeddings, plain and streamed.

    python -m benchmarks.soak.upstream PORT

Streams come in a few pieces with pauses between them, so that a client can leave halfway. A request whose text holds
`fail` is answered 500, one with `slow` after a while.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Iterable
from typing import Any

import uvloop
from aiohttp import web

_PIECES = 6
_PAUSE_S = 0.01
_SLOW_S = 0.3
_WORDS = "Sand the old paint off, wash the wood, let it dry, and paint twice in dry weather."
_numbers = itertools.count(1)


def completion(asked: dict[str, Any], number: int) -> dict[str, Any]:
    """An answer to a chat completion."""
    usage = {"prompt_tokens": 40, "completion_tokens": 20, "total_tokens": 60}
    message = {"role": "assistant", "content": f"{_WORDS} ({number})"}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1_700_000_000}
    return {**head, "model": asked.get("model", "m"), "choices": [choice], "usage": usage}


def chunks(asked: dict[str, Any], number: int) -> Iterable[dict[str, Any]]:
    """The same as a stream."""
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1_700_000_000}
    head["model"] = asked.get("model", "m")
    for n in range(_PIECES):
        delta = {"content": f"{_WORDS[n * 12 : n * 12 + 12]}"}
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    if (asked.get("stream_options") or {}).get("include_usage"):
        usage = {"prompt_tokens": 40, "completion_tokens": 20, "total_tokens": 60}
        yield {**head, "choices": [], "usage": usage}


def response(asked: dict[str, Any], number: int) -> dict[str, Any]:
    """An answer of the Responses API."""
    text = {"type": "output_text", "text": f"{_WORDS} ({number})", "annotations": []}
    item = {"id": f"msg_{number}", "type": "message", "status": "completed", "role": "assistant"}
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": asked.get("model", "m"),
        "output": [{**item, "content": [text]}],
        "previous_response_id": asked.get("previous_response_id"),
        "store": asked.get("store") is not False,
        "usage": {"input_tokens": 40, "output_tokens": 20, "total_tokens": 60},
    }


def response_events(asked: dict[str, Any], number: int) -> Iterable[dict[str, Any]]:
    """The same as a stream."""
    whole = response(asked, number)
    item = whole["output"][0]
    numbers = itertools.count()

    def event(kind: str, **more: Any) -> dict[str, Any]:
        return {"type": f"response.{kind}", "sequence_number": next(numbers), **more}

    yield event("created", response={**whole, "status": "in_progress", "output": [], "usage": None})
    yield event("output_item.added", output_index=0, item={**item, "status": "in_progress", "content": []})
    for n in range(_PIECES):
        delta = _WORDS[n * 12 : n * 12 + 12]
        yield event("output_text.delta", item_id=item["id"], output_index=0, content_index=0, delta=delta)
    yield event("output_item.done", output_index=0, item=item)
    yield event("completed", response=whole)


async def answer(request: web.Request) -> web.StreamResponse:
    """Whatever is asked."""
    if request.method != "POST":
        return web.json_response({"object": "list", "data": []})
    raw = await request.read()
    asked: dict[str, Any] = json.loads(raw)
    number = next(_numbers)
    if b" fail " in raw:
        error = {"message": "It failed.", "type": "server_error", "code": None, "param": None}
        return web.json_response({"error": error}, status=500)
    if b" slow " in raw:
        await asyncio.sleep(_SLOW_S)
    if request.path.endswith("/embeddings"):
        vector = [{"object": "embedding", "index": 0, "embedding": [0.1] * 256}]
        usage = {"prompt_tokens": 12, "total_tokens": 12}
        return web.json_response({"object": "list", "data": vector, "model": "e", "usage": usage})
    responses = request.path.endswith("/responses")
    if not asked.get("stream"):
        return web.json_response((response if responses else completion)(asked, number))
    events = (response_events if responses else chunks)(asked, number)
    stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await stream.prepare(request)
    for event in events:
        name = f"event: {event['type']}\n" if responses else ""
        await stream.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        await asyncio.sleep(_PAUSE_S)
    if not responses:
        await stream.write(b"data: [DONE]\n\n")
    return stream


async def main(port: int) -> None:
    """Serve until killed."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
