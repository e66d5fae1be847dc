"""An engine that may be killed and stopped: `python -m benchmarks.chaos.upstream PORT LEDGER`.

What it says follows from the request's tag, so that any other one says the same, and can go on where this one broke off.
What it charges is appended to the ledger in one write, which survives `kill -9`: how it ended, key, tag, nanodollars.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import zlib
from collections.abc import Iterator
from typing import Any

from aiohttp import web

INPUT_NANO, OUTPUT_NANO = 2_500, 10_000
"""Nanodollars of a token: 2.50 and 10 dollars per million."""
MOST_TOKENS = 24
"""What clients allow an answer; none is longer than 20."""
FIRST_S, PACE_S, PLAIN_S = 0.1, 0.03, 0.2
HEARD, LEFT, UNHEARD = "heard", "left", "unheard"
"""How an answer ended: whole; its reader left while it was sent; its reader was gone before it was sent."""
_TAG = re.compile(r"#([a-z]+)-(\d+)")


def pieces(tag: str) -> list[str]:
    """The answer to the request of this tag, a token each."""
    seed = zlib.crc32(tag.encode())
    words = [f"{('red', 'green', 'blue', 'grey')[(seed >> n) % 4]}{n}" for n in range(5 + seed % 16)]
    return [words[0], *(f" {word}" for word in words[1:])]


def tagged(text: str) -> tuple[str, str]:
    """(key, tag) that a prompt names last. A request of the gateway's own names none."""
    found = _TAG.findall(text)
    return (found[-1][0], "-".join(found[-1])) if found else ("gateway", "gateway-0")


class Engine:
    """Answers chats and responses, and notes what it charges."""

    def __init__(self, ledger: str) -> None:
        self._ledger = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response({"object": "list", "data": [{"id": "m", "object": "model"}]})
        body = await request.json()
        said = body["messages"] if "messages" in body else body["input"]
        messages = said if isinstance(said, list) else [{"role": "user", "content": said}]
        asked = [_text(m) for m in messages if m.get("role") == "user"]
        key, tag = tagged(asked[-1])
        words = pieces(tag)
        if messages[-1].get("role") == "assistant":
            words = words[len(_text(messages[-1]).split()) :]
        charge = _Charge(self._ledger, key, tag, sum(len(_text(m)) for m in messages) // 4 + 3)
        chat = request.path.endswith("/chat/completions")
        whole, events = (_completion, _chunks) if chat else (_response, _events)
        if body.get("stream"):
            return await _streamed(request, list(events(tag, words, charge.prompt)), len(words), charge)
        try:
            await asyncio.sleep(PLAIN_S)
        except asyncio.CancelledError:
            charge.note(UNHEARD, len(words))
            raise
        gone = request.transport is None or request.transport.is_closing()
        charge.note(UNHEARD if gone else HEARD, len(words))
        return web.json_response(whole(tag, words, charge.prompt))


class _Charge:
    def __init__(self, ledger: int, key: str, tag: str, prompt: int) -> None:
        self._ledger, self._key, self._tag, self.prompt = ledger, key, tag, prompt

    def note(self, how: str, tokens: int) -> None:
        nano = self.prompt * INPUT_NANO + tokens * OUTPUT_NANO
        os.write(self._ledger, f"{how} {self._key} {self._tag} {nano}\n".encode())


async def _streamed(
    request: web.Request, events: list[bytes], tokens: int, charge: _Charge
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    sent = 0
    try:
        await asyncio.sleep(FIRST_S)
        await response.prepare(request)
        for event in events[:-1]:
            await response.write(event)
            sent += 1
            await asyncio.sleep(PACE_S)
        # Noted before the end is sent: whoever has all of an answer has been charged for it.
        charge.note(HEARD, tokens)
        await response.write(events[-1])
    except (ConnectionError, asyncio.CancelledError):
        if sent < len(events) - 1:
            charge.note(LEFT if sent else UNHEARD, min(sent, tokens))
        raise
    return response


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _usage(prompt: int, said: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said}


def _completion(tag: str, words: list[str], prompt: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": "".join(words), "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    head = {"id": f"chatcmpl-{tag}", "object": "chat.completion", "created": 1, "model": "m"}
    return {**head, "choices": [choice], "usage": _usage(prompt, len(words))}


def _chunks(tag: str, words: list[str], prompt: int) -> Iterator[bytes]:
    head = {"id": f"chatcmpl-{tag}", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas: list[dict[str, str]] = [*({"role": "assistant", "content": word} for word in words), {}]
    for place, delta in enumerate(deltas):
        finish = "stop" if place == len(words) else None
        yield _data({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    yield _data({**head, "choices": [], "usage": _usage(prompt, len(words))}) + b"data: [DONE]\n\n"


def _data(event: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def _response(tag: str, words: list[str], prompt: int, status: str = "completed") -> dict[str, Any]:
    done = status == "completed"
    text = {"type": "output_text", "text": "".join(words), "annotations": [], "logprobs": []}
    item = {
        "id": f"msg_{tag}",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": [text],
    }
    usage = {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": len(words),
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + len(words),
    }
    return {
        "id": f"resp_{tag}",
        "object": "response",
        "created_at": 1,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": "m",
        "output": [item] if done else [],
        "parallel_tool_calls": True,
        "store": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage if done else None,
    }


def _events(tag: str, words: list[str], prompt: int) -> Iterator[bytes]:
    begun, whole = _response(tag, words, prompt, "in_progress"), _response(tag, words, prompt)
    item, part = whole["output"][0], whole["output"][0]["content"][0]
    there: dict[str, Any] = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    said: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **there, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **there, "delta": word, "logprobs": []} for word in words),
        {"type": "response.output_text.done", **there, "text": part["text"], "logprobs": []},
        {"type": "response.content_part.done", **there, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    for number, event in enumerate(said):
        yield f"event: {event['type']}\n".encode() + _data({**event, "sequence_number": number})


async def _serve(port: int, ledger: str) -> None:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", Engine(ledger).handle)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024, reuse_address=True).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), sys.argv[2]))
