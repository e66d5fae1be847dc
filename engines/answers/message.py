"""Merges an answer of `/v1/messages`, and says it as a chat completion.

Usage in a stream is cumulative: what `message_delta` says stands for what was said before. Its `input_tokens` are without
those that were read from a cache or written to one, unlike a chat completion's. Pure functions.
"""

from __future__ import annotations

from typing import Any

import orjson

from engines.answers.answer import Assembled
from engines.answers.heard import Heard
from engines.answers.merging import merge_repeated
from engines.answers.terminal import meaning_of
from engines.answers.usage import as_chat_tells

_UNSAID: dict[str, Any] = {"type": "message", "role": "assistant", "stop_sequence": None}
"""What vLLM leaves out of the beginning of a message."""
_TEXT_DELTAS = {"text_delta": "text", "thinking_delta": "thinking"}


class Message:
    """See engines.answers.answer.Merged."""

    def __init__(self) -> None:
        self.understood = True
        self._message: dict[str, Any] | None = None
        self._unmerged: list[str] = []
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, str] = {}
        """The JSON of tools' inputs, as far as it came."""
        self._open: set[int] = set()
        self._stopped = False

    def hear(self, event: dict[str, Any]) -> None:
        """See Merged."""
        match event.get("type"):
            case "ping":
                return
            case "message_start" if isinstance(event.get("message"), dict) and self._message is None:
                self._message = {**event["message"], "content": []}
                for name, value in _UNSAID.items():
                    self._message.setdefault(name, value)
            case "message_stop":
                self._stopped = True
            case "message_delta" if self._message is not None:
                self._change(self._message, event)
            case "content_block_start" | "content_block_delta" | "content_block_stop":
                self._hear_block(event)
            case None if not event:
                return
            case kind:
                self._unmerged.append(str(kind))

    def hear_whole(self, answer: dict[str, Any]) -> None:
        """See Merged."""
        self._message = answer if isinstance(answer.get("content"), list) else None
        self._stopped = answer.get("type") == "message"

    def assembled(self, heard: Heard) -> Assembled | None:
        """See Merged."""
        message = self._message
        if message is None:
            return None
        whole = self.understood and not self._unmerged and self._stopped and not self._open
        return Assembled(
            _as_chat(message, heard),
            whole and bool(message.get("stop_reason")),
            own=message,
            unmerged=tuple(dict.fromkeys(self._unmerged)),
            heard=heard,
        )

    def _change(self, message: dict[str, Any], event: dict[str, Any]) -> None:
        delta, usage = event.get("delta"), event.get("usage")
        message |= delta if isinstance(delta, dict) else {}
        for name, value in event.items():
            if name not in ("type", "delta", "usage"):
                merge_repeated(message, name, value, self._unmerged)
        if isinstance(usage, dict):
            before = message.get("usage") or {}
            message["usage"] = before | {n: value for n, value in usage.items() if value is not None}

    def _hear_block(self, event: dict[str, Any]) -> None:
        index, block, delta = event.get("index"), event.get("content_block"), event.get("delta")
        if self._message is None or not isinstance(index, int):
            self.understood = False
        elif event["type"] == "content_block_start" and isinstance(block, dict) and index not in self._blocks:
            self._blocks[index] = dict(block)
            self._open.add(index)
            self._message["content"].append(self._blocks[index])
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
            self._unmerged.append(str(kind))

    def _close(self, index: int) -> None:
        written = self._inputs.pop(index, "")
        if not written:
            return
        try:
            self._blocks[index]["input"] = orjson.loads(written)
        except orjson.JSONDecodeError:
            self.understood = False


def _as_chat(message: dict[str, Any], heard: Heard) -> dict[str, Any]:
    """A message, said as a chat completion."""
    blocks = [block for block in message["content"] if isinstance(block, dict)]
    calls = [
        {
            "id": block.get("id"),
            "type": "function",
            "function": {"name": block.get("name"), "arguments": orjson.dumps(block.get("input")).decode()},
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    text = "".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text")
    said = {"role": "assistant", "content": text or (None if calls else "")}
    choice = {
        "index": 0,
        "message": said | ({"tool_calls": calls} if calls else {}),
        "finish_reason": meaning_of(message.get("stop_reason")) or None,
    }
    head = {"id": message.get("id"), "object": "chat.completion", "model": message.get("model")}
    return head | {"choices": [choice]} | as_chat_tells(heard.told)
