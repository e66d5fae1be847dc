"""Says an answer as a message of `/v1/messages`, or as its events. Pure."""

from __future__ import annotations

from typing import Any

import orjson

from engines.answers.usage import beside_counts
from engines.chat import ChatRequest, Usage
from engines.codecs.parts import Saying
from engines.loose_json import parsed
from engines.sse import encode_typed

_STOPS = {
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "pause_turn": "pause_turn",
}
"""Why an answer ended, by the word that a chat completion has for it."""
_BEGUN: dict[str, Any] = {"stop_reason": None, "stop_sequence": None}
_DELTAS = {
    "text": (b"text_delta", b"text"),
    "refusal": (b"text_delta", b"text"),
    "reasoning": (b"thinking_delta", b"thinking"),
    "call": (b"input_json_delta", b"partial_json"),
}


class SayingMessage(Saying):
    """See Saying. A refusal is text, and why it ended says that it is one."""

    def __init__(self, chat: ChatRequest, *, streams: bool) -> None:
        super().__init__(chat, streams=streams)
        self._message: dict[str, Any] = {}
        self._blocks: list[dict[str, Any]] = []
        self._before = b""
        """What stands before the next piece of a block in its event."""
        self._refused = False

    def whole(self) -> dict[str, Any]:
        """See Saying."""
        return self._message

    def ping(self) -> None:
        """See Saying."""
        self._say({"type": "ping"})

    def _begin(self, id: str, model: str, created_s: int) -> None:
        head = {"id": f"msg_{id}", "type": "message", "role": "assistant", "model": model}
        told = {"usage": message_usage(self.usage)}
        self._message = head | {"content": self._blocks} | _BEGUN | told
        self._say({"type": "message_start", "message": head | {"content": []} | _BEGUN | told})

    def _say(self, event: dict[str, Any]) -> None:
        if self._streams:
            self._out.append(encode_typed(event))

    def _begin_part(self, kind: str) -> None:
        if kind == "reasoning":
            self._begin_block({"type": "thinking", "thinking": "", "signature": ""})
        else:
            self._begin_block({"type": "text", "text": ""})

    def _begin_call(self, id: str, name: str) -> None:
        # Nobody who speaks this API describes a custom tool.
        self._kind = "call"
        self._begin_block({"type": "tool_use", "id": id, "name": name, "input": {}})

    def _begin_block(self, block: dict[str, Any]) -> None:
        place = len(self._blocks)
        self._blocks.append(block)
        if self._streams:
            self._say({"type": "content_block_start", "index": place, "content_block": block})
            self._before = (
                b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
                b'"delta":{"type":"%b","%b":' % (place, *_DELTAS[self._kind])
            )

    def _piece(self, piece: str) -> None:
        if self._streams and piece:
            self._out.append(self._before + orjson.dumps(piece) + b"}}\n\n")

    def _say_text(self, piece: str, logprobs: list[Any] | None) -> None:
        self._piece(piece)

    def _say_reasoning(self, piece: str) -> None:
        self._piece(piece)

    def _say_refusal(self, piece: str) -> None:
        self._refused = True
        self._piece(piece)

    def _say_arguments(self, piece: str) -> None:
        self._piece(piece)

    def _seal(self, kind: str, held: str) -> None:
        place = len(self._blocks) - 1
        self._blocks[place]["signature"] = held
        delta = {"type": "signature_delta", "signature": held}
        self._say({"type": "content_block_delta", "index": place, "delta": delta})

    def seal(self, kind: str, held: str) -> None:
        """See Saying. What is not shown at all is a block of its own."""
        if kind != "redacted_thinking":
            super().seal(kind, held)
            return
        self._close()
        block = {"type": kind, "data": held}
        self._blocks.append(block)
        place = len(self._blocks) - 1
        self._say({"type": "content_block_start", "index": place, "content_block": block})
        self._say({"type": "content_block_stop", "index": place})

    def _end_part(self, kind: str, said: str) -> None:
        place = len(self._blocks) - 1
        block = self._blocks[place]
        if kind == "reasoning":
            block["thinking"] = said
        elif kind in ("text", "refusal"):
            block["text"] = said
        else:
            block["input"] = _input(said)
        self._say({"type": "content_block_stop", "index": place})

    def _end(self, reason: str, stop_sequence: str | None) -> None:
        why = "refusal" if self._refused else _STOPS.get(reason, "end_turn")
        if stop_sequence is not None and reason == "stop":
            why = "stop_sequence"
        ended = {"stop_reason": why, "stop_sequence": stop_sequence}
        told = {"usage": message_usage(self.usage)}
        self._message |= ended | told
        self._say({"type": "message_delta", "delta": ended} | told)
        self._say({"type": "message_stop"})


def _input(written: str) -> Any:
    """The input of a tool. What is no object is wrapped as Anthropic's documentation has it ("Fine-grained tool streaming"):
    its client can tell the model."""
    read = parsed(written or "{}")
    return read if isinstance(read, dict) else {"INVALID_JSON": written}


def message_usage(usage: Usage) -> dict[str, Any]:
    """The member `usage` of messages, whose `input_tokens` are those that no cache holds."""
    tier = {"service_tier": usage.service_tier} if usage.service_tier else {}
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.completion_tokens,
        **tier,
        **beside_counts(usage),
    }
