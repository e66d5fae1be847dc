"""Says answers of `/v1/messages` that no engine sends: remembered ones as events, and those that are made here. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from engines.as_events import pieces
from engines.codecs.said import Said
from engines.sse import encode_typed

_STOPS = {"length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
"""Why an answer ended, by the word that a chat completion has for it."""


def as_message(said: Said) -> dict[str, Any]:
    """An answer that was made here, as a message."""
    usage = said.usage
    text = [{"type": "text", "text": said.text}] if said.text or not said.calls else []
    calls = [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": orjson.loads(call["function"]["arguments"] or "{}"),
        }
        for call in said.calls
    ]
    return {
        "id": f"msg_{said.id}",
        "type": "message",
        "role": "assistant",
        "model": said.model,
        "content": [*text, *calls],
        "stop_reason": _STOPS.get(said.finish_reason, "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.prompt_tokens - usage.cached_tokens,
            "cache_read_input_tokens": usage.cached_tokens,
            "cache_creation_input_tokens": 0,
            "output_tokens": usage.completion_tokens,
        },
    }


def as_events(message: dict[str, Any]) -> bytes:
    """A remembered answer as the events that an engine would have sent."""
    return b"".join(encode_typed(event) for event in _events(message))


def _events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    usage = message.get("usage")
    begun = usage | {"output_tokens": 0} if isinstance(usage, dict) else usage
    head = message | {"content": [], "stop_reason": None, "stop_sequence": None, "usage": begun}
    yield {"type": "message_start", "message": head}
    for index, block in enumerate(message["content"]):
        start, deltas = _taken_apart(block)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {name: message.get(name) for name in ("stop_reason", "stop_sequence")}
    delta |= {name: message[name] for name in ("stop_details", "container") if message.get(name) is not None}
    yield {"type": "message_delta", "delta": delta, "usage": usage}
    yield {"type": "message_stop"}


def _taken_apart(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(how a block begins, what is added to it)."""
    match block.get("type"):
        case "text":
            cited = [{"type": "citations_delta", "citation": each} for each in block.get("citations") or ()]
            said = [{"type": "text_delta", "text": piece} for piece in pieces(block.get("text") or "")]
            return block | {"text": ""} | ({"citations": []} if cited else {}), [*said, *cited]
        case "thinking":
            said = [
                {"type": "thinking_delta", "thinking": piece} for piece in pieces(block.get("thinking") or "")
            ]
            signed = {"type": "signature_delta", "signature": block.get("signature")}
            return block | {"thinking": "", "signature": ""}, [*said, signed]
        case "tool_use":
            written = orjson.dumps(block.get("input")).decode()
            return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": written}]
    return block, []
