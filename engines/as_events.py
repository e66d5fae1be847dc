"""A completion as one object, said as the stream of server-sent events that an engine would have sent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from engines.answers.terminal import choices_of
from engines.sse import DONE, encode

EVENTS = "text/event-stream; charset=utf-8"
"""The content type of such a stream."""

_TO_THE_NEXT_WORD = re.compile(r"\S*\s*")
_PIECE_CHARACTERS = 24
_MAX_PIECES = 1000
"""A longer answer comes in larger pieces: a replay must not cost what a generation takes minutes for."""


def as_events(stored: bytes, *, include_usage: bool) -> bytes:
    """The body for a client that streams: role, content in pieces, finish reason, usage if asked for, and [DONE]."""
    completion = orjson.loads(stored)
    return b"".join([*(encode(orjson.dumps(c)) for c in _chunks(completion, include_usage)), DONE])


def _chunks(completion: dict[str, Any], include_usage: bool) -> Iterator[dict[str, Any]]:
    head, rest = head_and_rest(completion, include_usage=include_usage)
    head["object"] = "chat.completion.chunk"
    choices = choices_of(completion)
    for place, choice in enumerate(choices):
        index = choice.get("index", place)
        deltas = list(_deltas(choice.get("message") or {}))
        for i, delta in enumerate(deltas):
            logprobs = choice.get("logprobs") if i == min(1, len(deltas) - 1) else None
            said = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": None}
            yield head | {"choices": [said]}
        own = {name: value for name, value in choice.items() if name not in ("message", "logprobs", "usage")}
        last = rest if place == len(choices) - 1 else {}
        yield head | last | {"choices": [{"index": index, "delta": {}, "logprobs": None} | own]}
    if include_usage:
        yield head | {"choices": [], "usage": completion["usage"]}


def head_and_rest(answer: Mapping[str, Any], *, include_usage: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the members of an answer beside its choices: those that each chunk repeats, and those that one says once."""
    members = {name: value for name, value in answer.items() if name not in ("choices", "usage")}
    head = {name: value for name, value in members.items() if not isinstance(value, list | dict)}
    rest = {name: value for name, value in members.items() if name not in head}
    # With include_usage OpenAI puts a null usage on every chunk but the last.
    return (head | {"usage": None} if include_usage else head), rest


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content = message.get("content")
    rest = {k: v for k, v in message.items() if k not in ("content", "tool_calls")}
    yield rest | {"content": "" if isinstance(content, str) else content}
    if isinstance(content, str):
        yield from ({"content": piece} for piece in pieces(content))
    for index, call in enumerate(message.get("tool_calls") or ()):
        yield {"tool_calls": [{"index": index} | call]}


def pieces(text: str) -> Iterator[str]:
    """`text` in pieces of a few words, as an engine would say it."""
    least = max(_PIECE_CHARACTERS, len(text) // _MAX_PIECES)
    start = 0
    while start < len(text):
        word_end = _TO_THE_NEXT_WORD.match(text, start + least - 1)
        end = word_end.end() if word_end is not None else len(text)
        yield text[start:end]
        start = end
