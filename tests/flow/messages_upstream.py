"""What an upstream of Anthropic's Messages API answers, by the model it is asked for."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from tests.flow.line import Asked

TEXT = "Forty-two, as everybody knows by now."
USAGE = {
    "input_tokens": 5,
    "cache_read_input_tokens": 7,
    "cache_creation_input_tokens": 2,
    "output_tokens": 3,
    "service_tier": "standard",
}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
TOOL_USE = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}


def message(asked: dict[str, Any], text: str = TEXT) -> dict[str, Any]:
    """The answer as one object: the text, and a use of a tool where tools are offered."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}]
    if asked.get("tools"):
        blocks.append(TOOL_USE)
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": asked["model"],
        "content": blocks,
        "stop_reason": "tool_use" if asked.get("tools") else "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
    }


def events(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The same as a stream, as Anthropic sends it."""
    begun = {
        "input_tokens": 5,
        "cache_read_input_tokens": 7,
        "cache_creation_input_tokens": 2,
        "output_tokens": 1,
    }
    head = answer | {"content": [], "stop_reason": None, "usage": begun}
    said: list[dict[str, Any]] = [{"type": "message_start", "message": head}, {"type": "ping"}]
    for index, block in enumerate(answer["content"]):
        empty = {"text": ""} if block["type"] == "text" else {"input": {}}
        said.append({"type": "content_block_start", "index": index, "content_block": block | empty})
        pieces = (
            [{"type": "text_delta", "text": word + " "} for word in block["text"].split(" ")]
            if block["type"] == "text"
            else [{"type": "input_json_delta", "partial_json": piece} for piece in ('{"city"', ': "Oslo"}')]
        )
        if block["type"] == "text":
            pieces[-1]["text"] = pieces[-1]["text"].rstrip()
        said += [{"type": "content_block_delta", "index": index, "delta": piece} for piece in pieces]
        said.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    return [*said, {"type": "message_delta", "delta": delta, "usage": USAGE}, {"type": "message_stop"}]


def encoded(event: dict[str, Any]) -> bytes:
    """One event as it is sent."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


async def answers(request: web.Request, asked: Asked) -> web.StreamResponse:
    """Answers any of this API's requests; models called `overloaded…` and `halfway…` fail as their names say."""
    body = asked.json
    head = {"request-id": "req_up"}
    if request.path.endswith("/count_tokens"):
        return web.json_response({"input_tokens": 9}, headers=head)
    if body["model"].startswith("overloaded"):
        return web.json_response(OVERLOADED, status=529, headers=head)
    answer = message(body)
    if not body.get("stream"):
        return web.json_response(answer, headers=head)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **head})
    await response.prepare(request)
    said = events(answer)
    if body["model"].startswith("halfway"):
        said = [*said[:6], OVERLOADED]
    for event in said:
        await response.write(encoded(event))
    return response
