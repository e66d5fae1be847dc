"""A script for an upstream that answers `/v1/responses` as OpenAI does: it stores answers, continues and deletes them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from tests.flow.line import Asked, completion

USAGE = {
    "input_tokens": 7,
    "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
    "output_tokens": 3,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 10,
}


class ResponsesUpstream:
    """What it `says`, or calls where tools are offered; `stored` by id, with what was asked."""

    def __init__(self, name: str, says: str = "Forty-two.") -> None:
        self.name = name
        self.says = says
        self.stored: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        self.knows_all = False
        """Answers for ids that it never gave, as a mock of the whole API does."""
        self.breaks = False
        """Its streams end in the middle."""
        self._numbers = itertools.count(1)

    async def __call__(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        path = request.path.removeprefix("/v1")
        if path == "/responses" and request.method == "POST":
            return await self._answer(request, asked.json)
        if path == "/responses/compact":
            return web.json_response(_compacted(self._response({})))
        if path == "/chat/completions":
            return web.json_response(completion(self.says))
        _, _, id, *below = path.split("/")
        if self.knows_all:
            body = {"stream": request.query.get("stream") == "true"}
            return (
                web.Response(status=204) if request.method == "DELETE" else await self._answer(request, body)
            )
        if id not in self.stored:
            return web.json_response(_not_found(id), status=404)
        response, body = self.stored[id]
        if request.method == "DELETE":
            del self.stored[id]
            return web.json_response({"id": id, "object": "response", "deleted": True})
        if below == ["input_items"]:
            return web.json_response({"object": "list", "data": [body["input"]], "has_more": False})
        return web.json_response(response)

    async def _answer(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        previous = body.get("previous_response_id")
        if previous and previous not in self.stored and not self.knows_all:
            return web.json_response(_not_found(previous), status=400)
        response = self._response(body)
        if body.get("store") is not False:
            self.stored[response["id"]] = response, body
        if not body.get("stream"):
            return web.json_response(response)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await stream.prepare(request)
        events = list(events_of(response))
        for event in events[: len(events) // 2 if self.breaks else None]:
            await stream.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        return stream

    def _response(self, body: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        text = {"type": "output_text", "text": self.says, "annotations": [], "logprobs": []}
        item: dict[str, Any] = {
            "id": f"msg_{self.name}_{number}",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [text],
        }
        functions = [tool for tool in body.get("tools") or () if tool["type"] == "function"]
        if functions and not any(
            i.get("type") == "function_call_output" for i in body["input"] if i != str(i)
        ):
            item = {
                "id": f"fc_{self.name}_{number}",
                "type": "function_call",
                "status": "completed",
                "call_id": f"call_{number}",
                "name": functions[0]["name"],
                "arguments": '{"city":"Oslo"}',
            }
        return {
            "id": f"resp_{self.name}_{number}",
            "object": "response",
            "created_at": 1700000000,
            "status": "completed",
            "background": bool(body.get("background")),
            "error": None,
            "incomplete_details": None,
            "instructions": body.get("instructions"),
            "max_output_tokens": body.get("max_output_tokens"),
            "model": body.get("model", "m"),
            "output": [item],
            "parallel_tool_calls": True,
            "previous_response_id": body.get("previous_response_id"),
            "reasoning": {"effort": None, "summary": None},
            "store": body.get("store") is not False,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": body.get("tools") or [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": USAGE,
            "user": body.get("user"),
            "metadata": body.get("metadata") or {},
            "a_field_of_next_year": {"x": 1},
        }


def events_of(response: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The answer as OpenAI streams it, with an event that nobody knows yet."""
    numbers = itertools.count()
    begun = {**response, "status": "in_progress", "output": [], "usage": None}

    def event(kind: str, **more: Any) -> dict[str, Any]:
        return {"type": f"response.{kind}", "sequence_number": next(numbers), **more}

    yield event("created", response=begun)
    yield event("in_progress", response=begun)
    yield event("of_next_year", x=1)
    item = response["output"][0]
    empty = {"status": "in_progress"} | ({"content": []} if item["type"] == "message" else {"arguments": ""})
    yield event("output_item.added", output_index=0, item={**item, **empty})
    where = {"item_id": item["id"], "output_index": 0}
    if item["type"] == "message":
        part = item["content"][0]
        yield event("content_part.added", **where, content_index=0, part={**part, "text": ""})
        for word in part["text"].split(" "):
            yield event("output_text.delta", **where, content_index=0, delta=word, logprobs=[])
        yield event("output_text.done", **where, content_index=0, text=part["text"], logprobs=[])
        yield event("content_part.done", **where, content_index=0, part=part)
    else:
        yield event("function_call_arguments.delta", **where, delta=item["arguments"])
        done = {"name": item["name"], "arguments": item["arguments"]}
        yield event("function_call_arguments.done", **where, **done)
    yield event("output_item.done", output_index=0, item=item)
    yield event("completed", response=response)


def _called(given: Any) -> bool:
    return any(item.get("type") == "function_call_output" for item in given if isinstance(item, dict))


def _compacted(response: dict[str, Any]) -> dict[str, Any]:
    kept = {name: response[name] for name in ("id", "created_at", "output", "usage")}
    return {**kept, "object": "response.compaction"}


def _not_found(id: str) -> dict[str, Any]:
    message = f"Response with id '{id}' not found."
    return {"error": {"message": message, "type": "invalid_request_error", "param": "id", "code": None}}
