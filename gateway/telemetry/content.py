"""Messages and answers in the form of the GenAI conventions (`gen_ai.input.messages`, `gen_ai.output.messages`).

Pictures, sound and files are named, not sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

_MOST_BYTES = 64 * 1024
"""Of the messages of one request; the earlier ones are left out first."""


def asked_messages(messages: Sequence[Mapping[str, Any]]) -> str:
    """What the client sent, as JSON text of at most 64 KiB: the latest messages of a long conversation."""
    kept: list[bytes] = []
    left = _MOST_BYTES
    for message in reversed(messages):
        told = orjson.dumps({"role": str(message.get("role") or ""), "parts": _parts(message)}, default=str)
        left -= len(told) + 1
        if left < 0:
            break
        kept.append(told)
    return (b"[" + b",".join(reversed(kept)) + b"]").decode()


def answered_messages(choices: Sequence[Mapping[str, Any]]) -> str:
    """What was answered, as JSON text; an empty list where it is more than 64 KiB."""
    told = [
        {
            "role": "assistant",
            "parts": _parts(choice.get("message") or {}),
            "finish_reason": str(choice.get("finish_reason") or ""),
        }
        for choice in choices
    ]
    text = orjson.dumps(told, default=str)
    return text.decode() if len(text) <= _MOST_BYTES else "[]"


def _parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    if message.get("role") == "tool":
        return [{"type": "tool_call_response", "id": message.get("tool_call_id"), "response": content}]
    parts: list[dict[str, Any]] = []
    if isinstance(content, str):
        parts.append({"type": "text", "content": content})
    elif isinstance(content, list):
        parts += [_part(each) for each in content if isinstance(each, dict)]
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            told = {
                "id": call.get("id"),
                "name": function.get("name"),
                "arguments": function.get("arguments"),
            }
            parts.append({"type": "tool_call", **told})
    return parts


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(part.get("text"), str):
        return {"type": "text", "content": part["text"]}
    return {"type": str(part.get("type") or "other")}
