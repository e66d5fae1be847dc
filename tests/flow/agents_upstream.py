"""A script for an upstream that has an agent run a command in each of ten turns, in the API that it is asked in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from tests.flow.line import Asked

TURNS = 10
USED, SAID = 1200, 20
_SHELLS = ("Bash", "shell", "shell_command", "exec_command", "run")


class AgentsUpstream:
    """Calls the agent's shell `TURNS` times, twice at once in the fifth turn where `parallel`, then says that it is done."""

    def __init__(self, apis: tuple[str, ...], *, parallel: bool = False) -> None:
        self.apis = apis
        self.parallel = parallel
        self.unspoken: list[str] = []
        """Paths that were asked for and are none of its APIs."""

    async def __call__(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        path = request.path.removeprefix("/v1")
        api = {"/chat/completions": "chat", "/responses": "responses", "/messages": "messages"}.get(path)
        if path == "/messages/count_tokens" and "messages" in self.apis:
            return web.json_response({"input_tokens": USED})
        if path == "/models":
            return web.json_response({"object": "list", "data": []})
        if api not in self.apis:
            self.unspoken.append(path)
            return web.json_response({"error": {"message": f"no {path} here", "code": "unknown"}}, status=404)
        body = asked.json
        calls = self._calls(_done(body), body.get("tools") or [])
        whole, events = {"chat": _chat, "responses": _response, "messages": _message}[str(api)](body, calls)
        if not body.get("stream"):
            return web.json_response(whole)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        for event in events:
            kind = f"event: {event['type']}\n" if "type" in event else ""
            await stream.write(f"{kind}data: {json.dumps(event)}\n\n".encode())
        if api == "chat":
            await stream.write(b"data: [DONE]\n\n")
        return stream

    def _calls(self, done: int, tools: list[Any]) -> list[tuple[str, str, dict[str, Any]]]:
        """(id, name, arguments) of what the agent is to run now; none once it has run all, or has no shell."""
        offered = {name: shape for tool in tools for name, shape in [_offered(tool)] if name in _SHELLS}
        turns = done if not self.parallel or done <= TURNS // 2 else done - 1
        if not offered or turns >= TURNS:
            return []
        name, shape = next(iter(offered.items()))
        at_once = 2 if self.parallel and turns == TURNS // 2 else 1
        return [(f"call_{done + i}", name, _arguments(shape, done + i)) for i in range(at_once)]


def _done(body: dict[str, Any]) -> int:
    """How many results of tools a request holds, in any API."""
    found = 0
    for item in [*body.get("messages", ()), *(i for i in body.get("input", ()) if isinstance(i, dict))]:
        parts = item.get("content") if isinstance(item.get("content"), list) else []
        found += item.get("role") == "tool" or item.get("type") == "function_call_output"
        found += sum(part.get("type") == "tool_result" for part in parts)
    return found


def _offered(tool: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    said = tool.get("function", tool)
    return str(said.get("name")), said.get("parameters") or said.get("input_schema") or {}


def _arguments(shape: dict[str, Any], number: int) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name in ("command", "cmd"):
        if (member := shape.get("properties", {}).get(name)) is not None:
            line = f"echo turn {number}"
            given[name] = ["bash", "-lc", line] if member.get("type") == "array" else line
    return given


def _chat(body: dict[str, Any], calls: list[Any]) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    said = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for id, name, given in calls
    ]
    message = {"role": "assistant", "content": None if said else "All done."} | (
        {"tool_calls": said} if said else {}
    )
    reason = "tool_calls" if said else "stop"
    head = {"id": "chatcmpl-1", "created": 1, "model": body["model"]}
    usage = {"prompt_tokens": USED, "completion_tokens": SAID, "total_tokens": USED + SAID}
    choice = {"index": 0, "message": message, "finish_reason": reason}

    def events() -> Iterator[dict[str, Any]]:
        chunk = head | {"object": "chat.completion.chunk"}
        yield chunk | {
            "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
        }
        pieces: list[dict[str, Any]] = [] if said else [{"content": "All "}, {"content": "done."}]
        for index, call in enumerate(said):
            written = call["function"]["arguments"]
            pieces.append(
                {"tool_calls": [{"index": index} | call | {"function": call["function"] | {"arguments": ""}}]}
            )
            pieces += (
                {"tool_calls": [{"index": index, "function": {"arguments": part}}]}
                for part in (written[:7], written[7:])
            )
        for delta in pieces:
            yield chunk | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        yield chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
        if (body.get("stream_options") or {}).get("include_usage"):
            yield chunk | {"choices": [], "usage": usage}

    return head | {"object": "chat.completion", "choices": [choice], "usage": usage}, events()


def _response(body: dict[str, Any], calls: list[Any]) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    part = {"type": "output_text", "text": "All done.", "annotations": []}
    items: list[dict[str, Any]] = [
        {"id": f"fc_{id}", "type": "function_call", "status": "completed", "call_id": id, "name": name}
        | {"arguments": json.dumps(given)}
        for id, name, given in calls
    ] or [{"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [part]}]
    usage = {"input_tokens": USED, "output_tokens": SAID, "total_tokens": USED + SAID}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}  # type: ignore[dict-item]
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": body["model"],
    }
    whole |= {"output": items, "usage": usage}

    def events() -> Iterator[dict[str, Any]]:
        told: list[dict[str, Any]] = [
            {"type": "response.created", "response": whole | {"status": "in_progress", "output": []}}
        ]
        for index, item in enumerate(items):
            told += _item_events(index, item)
        told.append({"type": "response.completed", "response": whole})
        yield from (event | {"sequence_number": number} for number, event in enumerate(told))

    return whole, events()


def _item_events(index: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    where = {"item_id": item["id"], "output_index": index}
    calls = item["type"] == "function_call"
    begun = item | {"status": "in_progress"} | ({"arguments": ""} if calls else {"content": []})
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    if calls:
        yield {"type": "response.function_call_arguments.delta", **where, "delta": item["arguments"]}
        yield {"type": "response.function_call_arguments.done", **where, "arguments": item["arguments"]}
    else:
        part, place = item["content"][0], {**where, "content_index": 0}
        yield {"type": "response.content_part.added", **place, "part": part | {"text": ""}}
        yield {"type": "response.output_text.delta", **place, "delta": part["text"], "logprobs": []}
        yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
        yield {"type": "response.content_part.done", **place, "part": part}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _message(body: dict[str, Any], calls: list[Any]) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    blocks: list[dict[str, Any]] = [
        {"type": "tool_use", "id": id, "name": name, "input": given} for id, name, given in calls
    ] or [{"type": "text", "text": "All done."}]
    stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    usage = {"input_tokens": USED, "output_tokens": SAID}
    whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": blocks}
    whole |= stop | {"usage": usage}

    def events() -> Iterator[dict[str, Any]]:
        yield {"type": "message_start", "message": whole | {"content": [], "stop_reason": None}}
        for index, block in enumerate(blocks):
            calls_tool = block["type"] == "tool_use"
            empty: dict[str, Any] = {"input": {}} if calls_tool else {"text": ""}
            begun = block | empty
            delta = (
                {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
                if calls_tool
                else {"type": "text_delta", "text": block["text"]}
            )
            yield {"type": "content_block_start", "index": index, "content_block": begun}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": SAID}}
        yield {"type": "message_stop"}

    return whole, events()
