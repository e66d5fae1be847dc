"""An answer of `/v1/messages`: put together from its events, said as a chat completion, and said again as events.

Usage in a stream is cumulative: what `message_delta` says stands for what was said before. Its `input_tokens` are without
those that were read from a cache or written to one, unlike a chat completion's. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from engines.answers.answer import Assembled
from engines.as_events import pieces
from engines.sse import encode_typed, events

_ENDED: dict[str, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
"""Reasons to stop, as a chat completion calls them."""
_UNSAID: dict[str, Any] = {"type": "message", "role": "assistant", "stop_sequence": None}
"""What vLLM leaves out of the beginning of a message."""
_TEXT_DELTAS = {"text_delta": "text", "thinking_delta": "thinking"}


def from_object(body: bytes) -> Assembled | None:
    """An answer that came as one object; None where it is none."""
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        return None
    return _assembled(message, whole=message.get("type") == "message" and bool(message.get("stop_reason")))


def from_events(body: bytes) -> Assembled | None:
    """An answer that came as a stream; None where no message began in it.

    What is not understood makes it not `whole`: better not to remember than to replay less than was said.
    """
    building = _Building()
    for data in events(body):
        if data == b"[DONE]":
            # Said by vLLM, after the last event.
            continue
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            building.understood = False
            continue
        if isinstance(event, dict):
            building.hear(event)
        else:
            building.understood = False
    if building.message is None:
        return None
    message = building.message
    return _assembled(message, whole=building.is_whole and bool(message.get("stop_reason")))


class _Building:
    """A message that is being put together."""

    def __init__(self) -> None:
        self.message: dict[str, Any] | None = None
        self.understood = True
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, str] = {}
        """The JSON of tools' inputs, as far as it came."""
        self._open: set[int] = set()
        self._stopped = False

    @property
    def is_whole(self) -> bool:
        """Whether it came to its end, and all of it was understood."""
        return self._stopped and self.understood and not self._open

    def hear(self, event: dict[str, Any]) -> None:
        """The next event."""
        match event.get("type"):
            case "ping":
                return
            case "message_start" if isinstance(event.get("message"), dict) and self.message is None:
                self.message = {**event["message"], "content": []}
                for name, value in _UNSAID.items():
                    self.message.setdefault(name, value)
            case "message_stop":
                self._stopped = True
            case "message_delta" if self.message is not None:
                self._change(event)
            case "content_block_start" | "content_block_delta" | "content_block_stop":
                self._hear_block(event)
            case _:
                self.understood = False

    def _change(self, event: dict[str, Any]) -> None:
        assert self.message is not None
        delta, usage = event.get("delta"), event.get("usage")
        self.message |= delta if isinstance(delta, dict) else {}
        if isinstance(usage, dict):
            before = self.message.get("usage") or {}
            self.message["usage"] = before | {n: value for n, value in usage.items() if value is not None}

    def _hear_block(self, event: dict[str, Any]) -> None:
        index, block, delta = event.get("index"), event.get("content_block"), event.get("delta")
        if self.message is None or not isinstance(index, int):
            self.understood = False
        elif event["type"] == "content_block_start" and isinstance(block, dict) and index not in self._blocks:
            self._blocks[index] = dict(block)
            self._open.add(index)
            self.message["content"].append(self._blocks[index])
        elif event["type"] == "content_block_stop" and index in self._open:
            self._open.discard(index)
            self._close(index)
        elif event["type"] == "content_block_delta" and index in self._open and isinstance(delta, dict):
            self._add(index, delta)
        else:
            self.understood = False

    def _add(self, index: int, delta: dict[str, Any]) -> None:
        block, kind = self._blocks[index], delta.get("type")
        name = _TEXT_DELTAS.get(str(kind))
        if name is not None and isinstance(delta.get(name), str):
            block[name] = (block.get(name) or "") + delta[name]
        elif kind == "signature_delta":
            block["signature"] = delta.get("signature")
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
        elif kind == "input_json_delta" and isinstance(delta.get("partial_json"), str | None):
            self._inputs[index] = self._inputs.get(index, "") + (delta.get("partial_json") or "")
        else:
            self.understood = False

    def _close(self, index: int) -> None:
        written = self._inputs.pop(index, "")
        if not written:
            return
        try:
            self._blocks[index]["input"] = orjson.loads(written)
        except orjson.JSONDecodeError:
            self.understood = False


def _assembled(message: dict[str, Any], *, whole: bool) -> Assembled:
    blocks = [block for block in message["content"] if isinstance(block, dict)]
    calls = [
        {
            "id": block.get("id"),
            "type": "function",
            "function": {
                "name": block.get("name"),
                "arguments": orjson.dumps(block.get("input")).decode(),
            },
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    text = "".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text")
    said = {"role": "assistant", "content": text or (None if calls else "")}
    reason = message.get("stop_reason")
    choice = {
        "index": 0,
        "message": said | ({"tool_calls": calls} if calls else {}),
        "finish_reason": _ENDED.get(str(reason), reason),
    }
    completion = {
        "id": message.get("id"),
        "object": "chat.completion",
        "model": message.get("model"),
        "choices": [choice],
    }
    usage = message.get("usage")
    if isinstance(usage, dict) and isinstance(usage.get("input_tokens"), int):
        completion["usage"] = _usage(usage)
        if isinstance(usage.get("service_tier"), str):
            completion["service_tier"] = usage["service_tier"]
    return Assembled(completion, whole=whole, own=message)


def _usage(usage: dict[str, Any]) -> dict[str, Any]:
    """A chat completion's usage: its prompt tokens contain those read from a cache and those written to one."""
    read, written, answered = (
        value if isinstance(value := usage.get(name), int) else 0
        for name in ("cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
    )
    prompt = usage["input_tokens"] + read + written
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answered,
        "total_tokens": prompt + answered,
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
    }


# ---- said again


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
