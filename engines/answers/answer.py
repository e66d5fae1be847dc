"""Puts a finished answer's bytes together to one object. Pure functions; they run off the request path."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from engines.answers.usage import usage_of
from engines.chat import Usage, message_text
from engines.sse import events

_GZIP_OR_ZLIB = 47
_INFLATED_AT_ONCE_BYTES = 2**20
_MAX_INFLATED_BYTES = 16 * 2**20
"""A megabyte of gzip can hold a gigabyte: more than this is not read."""
_JOINED = ("content", "refusal", "reasoning_content", "reasoning")
"""Delta fields whose pieces join as text."""
_KNOWN_DELTA = frozenset({"role", *_JOINED, "tool_calls"})
_KNOWN_CHOICE = frozenset({"index", "delta", "finish_reason", "logprobs", "stop_reason", "token_ids"})


@dataclass(frozen=True, slots=True)
class Assembled:
    """An answer as one object, said as a chat completion."""

    completion: dict[str, Any]
    """The `chat.completion` object."""
    whole: bool
    """Each choice came to its end, and every part of it was understood: it may be replayed."""
    own: dict[str, Any] | None = None
    """The answer as its own API says it in one piece, where that is no chat completion."""

    def choices(self) -> list[dict[str, Any]]:
        """The choices, each an object."""
        found = self.completion.get("choices")
        return [c for c in found if isinstance(c, dict)] if isinstance(found, list) else []

    def text(self) -> str:
        """The first choice's text."""
        for choice in self.choices():
            message = choice.get("message")
            return message_text(message.get("content")) if isinstance(message, dict) else ""
        return ""

    def finish_reason(self) -> str:
        """The first choice's finish reason, or nothing."""
        for choice in self.choices():
            return str(choice.get("finish_reason") or "")
        return ""

    def calls_tools(self) -> bool:
        """Whether any choice calls a tool."""
        messages = (c.get("message") for c in self.choices())
        return any(isinstance(m, dict) and (m.get("tool_calls") or m.get("function_call")) for m in messages)

    def said(self) -> str:
        """The first choice's text; where it calls tools the calls as JSON without ids, so that two can be compared."""
        if not self.calls_tools():
            return self.text()
        message = self.choices()[0]["message"]
        calls = [call.get("function") for call in message.get("tool_calls") or () if isinstance(call, dict)]
        return json.dumps(
            {"tool_calls": [_by_value(call) for call in [*calls, message.get("function_call")] if call]}
        )

    def usage(self) -> Usage | None:
        """Tokens as the engine counted them; None where it did not say."""
        return usage_of(self.completion)


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a finished answer, as far as it was kept."""

    chunks: Sequence[bytes] = ()
    """All of it; nothing where it was too large to be kept."""
    size_bytes: int = 0
    content_type: str = ""
    encoded: bool = False
    """Compressed: it has a content encoding."""
    tail: Sequence[bytes] = ()
    """The end of it, where it was too large to be kept."""

    @property
    def streamed(self) -> bool:
        """Whether it is a stream of server-sent events."""
        return self.content_type.startswith("text/event-stream")

    def decoded(self) -> bytes:
        """The body without its content encoding. Raises zlib.error as `inflated` does."""
        body = b"".join(self.chunks)
        return inflated(body) if self.encoded else body

    def readable(self) -> bytes | None:
        """The same; None where nothing was kept, or it cannot be decoded."""
        try:
            return self.decoded() if self.chunks else None
        except zlib.error:
            return None

    def assembled(self) -> Assembled | None:
        """The chat completion in it; None where it holds none that can be read."""
        body = self.readable()
        if body is None:
            return None
        return from_events(body) if self.streamed else from_json(body)


def inflated(body: bytes) -> bytes:
    """What is packed in `body`. Raises zlib.error for what is not gzip or deflate, was cut, or is over 16 MiB."""
    decoder = zlib.decompressobj(_GZIP_OR_ZLIB)
    pieces, size = [], 0
    while piece := decoder.decompress(body, _INFLATED_AT_ONCE_BYTES):
        size += len(piece)
        if size > _MAX_INFLATED_BYTES:
            raise zlib.error("too large")
        pieces.append(piece)
        body = decoder.unconsumed_tail
    if not decoder.eof or decoder.unused_data:
        raise zlib.error("not one whole stream")
    return b"".join(pieces)


def _by_value(call: Any) -> Any:
    """A call of a function with its arguments parsed, where they are JSON."""
    try:
        return {**call, "arguments": orjson.loads(call["arguments"])}
    except (TypeError, KeyError, ValueError):
        return call


def from_json(body: bytes) -> Assembled | None:
    """A completion that came as one JSON object; None if it is not one."""
    try:
        completion = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(completion, dict) or not isinstance(completion.get("choices"), list):
        return None
    return Assembled(completion, whole="error" not in completion)


def from_events(body: bytes) -> Assembled | None:
    """A completion that came as a stream; None if it held no chunk of one.

    A delta field that is not understood makes the result not `whole`: better not to remember than to replay less than was
    said.
    """
    completion: dict[str, Any] | None = None
    choices: dict[int, dict[str, Any]] = {}
    understood = True
    for data in events(body):
        if data == b"[DONE]":
            continue
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            understood = False
            continue
        if not isinstance(chunk, dict) or "error" in chunk or not isinstance(chunk.get("choices"), list):
            understood = False
            continue
        if completion is None:
            completion = {k: v for k, v in chunk.items() if k not in ("choices", "usage", "obfuscation")}
            completion["object"] = "chat.completion"
        if isinstance(chunk.get("usage"), dict):
            said = {name: value for name, value in chunk["usage"].items() if value is not None}
            completion["usage"] = completion.get("usage", {}) | said
        if isinstance(chunk.get("service_tier"), str):
            completion["service_tier"] = chunk["service_tier"]
        for choice in chunk["choices"]:
            understood = _merge(choices, choice) and understood
    if completion is None:
        return None
    completion["choices"] = [choices[index] for index in sorted(choices)]
    finished = bool(choices) and all(c["finish_reason"] for c in choices.values())
    return Assembled(completion, whole=finished and understood)


def _merge(choices: dict[int, dict[str, Any]], piece: Any) -> bool:
    """Add one choice of a chunk. Returns whether all of it was understood."""
    if not isinstance(piece, dict) or not isinstance(piece.get("index"), int):
        return False
    index = piece["index"]
    empty = {"role": "assistant", "content": None}
    choice = choices.setdefault(index, {"index": index, "message": empty, "finish_reason": None})
    message = choice["message"]
    delta = piece.get("delta")
    understood = set(piece) <= _KNOWN_CHOICE and isinstance(delta, dict)
    for name, value in (delta if isinstance(delta, dict) else {}).items():
        if value is None:
            continue
        if name in _JOINED and isinstance(value, str):
            message[name] = (message.get(name) or "") + value
        elif name == "role":
            message["role"] = value
        elif name == "tool_calls" and isinstance(value, list):
            understood = _merge_tool_calls(message.setdefault("tool_calls", []), value) and understood
        elif name not in _KNOWN_DELTA:
            understood = False
    if piece.get("finish_reason"):
        choice["finish_reason"] = piece["finish_reason"]
    if isinstance(piece.get("logprobs"), dict):
        _merge_logprobs(choice, piece["logprobs"])
    return understood


def _merge_tool_calls(calls: list[dict[str, Any]], pieces: list[Any]) -> bool:
    for piece in pieces:
        if (
            not isinstance(piece, dict)
            or not isinstance(piece.get("index"), int)
            or piece["index"] > len(calls)
        ):
            return False
        if piece["index"] == len(calls):
            calls.append(
                {k: v for k, v in piece.items() if k not in ("index", "function")} | {"function": {}}
            )
        function = calls[piece["index"]]["function"]
        for name, value in (piece.get("function") or {}).items():
            function[name] = function.get(name, "") + value if isinstance(value, str) else value
    return True


def _merge_logprobs(choice: dict[str, Any], piece: dict[str, Any]) -> None:
    known = choice.setdefault("logprobs", {})
    for name, value in piece.items():
        if isinstance(value, list):
            known[name] = (known.get(name) or []) + value
        else:
            known.setdefault(name, value)
