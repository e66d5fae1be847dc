"""Says answers of `/v1/messages` that are remembered, as events. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from engines.as_events import pieces
from engines.sse import encode_typed


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
