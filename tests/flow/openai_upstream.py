"""A script for the upstream that answers like OpenAI's API, as far as the official SDKs look."""

from __future__ import annotations

import json
from typing import Any

from tests.flow.upstream import Call

FILE = bytes(range(256)) * 64
TEXT = ["Hel", "lo, ", "wörld", " 🙂"]
USAGE = {"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 11}
TOOL_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city":"Oslo"}'},
}
ERRORS = {
    "bad": (400, {"message": "bad", "type": "invalid_request_error", "param": "messages", "code": "wrong"}),
    "key": (
        401,
        {"message": "no", "type": "invalid_request_error", "param": None, "code": "invalid_api_key"},
    ),
    "forbidden": (403, {"message": "no", "type": "permission_error", "param": None, "code": None}),
    "ghost": (
        404,
        {"message": "no", "type": "invalid_request_error", "param": None, "code": "model_not_found"},
    ),
    "conflict": (409, {"message": "no", "type": "conflict", "param": None, "code": None}),
    "odd": (422, {"message": "no", "type": "invalid_request_error", "param": None, "code": None}),
    "busy": (
        429,
        {"message": "slow", "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded"},
    ),
    "broken": (500, {"message": "oops", "type": "server_error", "param": None, "code": None}),
}
"""Model name to status and error."""


def answers(call: Call) -> None:
    """The script."""
    path = call.target.decode().partition("?")[0]
    if path == "/v1/chat/completions":
        _chat(call, call.json())
    elif path == "/v1/embeddings":
        _json(call, {"object": "list", "model": "e", "data": [_embedding(0), _embedding(1)], "usage": USAGE})
    elif path == "/v1/models":
        _json(
            call, {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "us"}]}
        )
    elif path == "/v1/files" and call.method == "POST":
        assert b'filename="notes.bin"' in call.body and FILE in call.body
        _json(call, {"id": "file-1", "object": "file", "bytes": len(FILE), "created_at": 1, "filename": "notes.bin",
                     "purpose": "user_data", "status": "processed"})  # fmt: skip
    elif path == "/v1/files/file-1/content":
        call.answer(FILE, headers=[("Content-Type", "application/octet-stream")])
    else:
        _json(
            call,
            {"error": {"message": path, "type": "invalid_request_error", "param": None, "code": None}},
            404,
        )


def _chat(call: Call, asked: dict[str, Any]) -> None:
    if asked["model"] in ERRORS:
        status, error = ERRORS[asked["model"]]
        _json(call, {"error": error}, status)
    elif asked["model"] == "cut":
        call.begin()
        _event(call, {"content": "Hel"})
    elif asked.get("stream"):
        _stream(call, asked)
    else:
        calls = asked.get("tools")
        message: dict[str, Any] = {"role": "assistant", "content": None if calls else "".join(TEXT)}
        if calls:
            message["tool_calls"] = [TOOL_CALL]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        _json(call, {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked["model"],
                     "choices": [choice], "usage": USAGE, "a_field_of_next_year": {"x": 1}})  # fmt: skip


def _stream(call: Call, asked: dict[str, Any]) -> None:
    call.begin("text/event-stream; charset=utf-8", headers=[("x-request-id", "req_1")])
    _event(call, {"role": "assistant", "content": ""})
    if asked.get("tools"):
        for piece in ('{"city"', ':"Oslo"}'):
            function = {"name": "weather", "arguments": piece}
            _event(
                call, {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}
            )
    else:
        for text in TEXT:
            _event(call, {"content": text})
    _event(call, {}, finish_reason="tool_calls" if asked.get("tools") else "stop")
    if (asked.get("stream_options") or {}).get("include_usage"):
        call.chunk(b"data: " + json.dumps(_chunk([]) | {"usage": USAGE}).encode() + b"\n\n")
    call.chunk(b"data: [DONE]\n\n")
    call.end()


def _event(call: Call, delta: dict[str, Any], finish_reason: str | None = None) -> None:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    call.chunk(b"data: " + json.dumps(_chunk([choice]), ensure_ascii=False).encode() + b"\n\n")


def _chunk(choices: list[Any]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": choices,
    }


def _embedding(index: int) -> dict[str, Any]:
    return {"object": "embedding", "index": index, "embedding": [0.5, -0.25, index]}


def _json(call: Call, content: Any, status: int = 200) -> None:
    headers = [("Content-Type", "application/json"), ("x-request-id", "req_1")]
    call.answer(json.dumps(content, ensure_ascii=False).encode(), status, headers)
