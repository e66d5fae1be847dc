"""Whether an answer with status 200 is one, as far as its form tells, and whether an event of a stream says anything yet.

Asked only where another engine could do better. Refuses to judge what is said. Pure functions.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from enum import Enum
from typing import Any

import orjson

from engines.sse import INFLATABLE, events, whole_events

_MAX_UNPACKED_BYTES = 2**20
_GZIP_OR_ZLIB = 47
_SAYS = ("content", "refusal", "tool_calls", "function_call", "audio")
"""Members of a message that answer something."""


class Begun(Enum):
    """What the first events of a stream amount to."""

    NOTHING = "nothing"
    """Comments, bare roles, or nothing at all."""
    DATA = "data"
    """Something that a client can use, or that cannot be read here."""
    FAILED = "failed"
    """An error came before anything else."""


def wrong_with(body: bytes, headers: Mapping[str, str]) -> str | None:
    """Why a whole answer of status 200 to a request that was not streamed is none, in a word; None where it is one.

    One in an encoding that cannot be read here, or that unpacks to more than 1 MiB, is taken for an answer.
    """
    if not body:
        return "empty"
    plain = unpacked(body, headers.get("Content-Encoding", "identity").strip().lower())
    if plain is None:
        return None
    try:
        answer = orjson.loads(plain)
    except orjson.JSONDecodeError:
        return "no JSON"
    if not isinstance(answer, dict):
        return "no object"
    choices = answer.get("choices")
    if not choices:
        return "an error" if answer.get("error") else None
    if isinstance(choices, list) and all(_stopped_in_silence(choice) for choice in choices):
        return "no content"
    return None


def begun(piece: bytes, *, cut: bool = False) -> Begun:
    """What these whole events amount to, until the first that says something. `cut`: the last may be half an event."""
    for data in events(piece):
        if data == b"[DONE]":
            continue
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            if cut:
                continue
            return Begun.DATA
        if fails(event):
            return Begun.FAILED
        if says_something(event):
            return Begun.DATA
    return Begun.NOTHING


def holds_data(body: bytes) -> bool:
    """Whether a stream that begins so has come to its first data, or failed; half an event at its end does not count."""
    return begun(whole_events(body)) is not Begun.NOTHING


def fails(event: Any) -> bool:
    """Whether an event of a stream says that it failed: an `error` at its top, or as a choice's finish reason."""
    if not isinstance(event, dict):
        return False
    if event.get("error"):
        return True
    choices = event.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and choice.get("finish_reason") == "error" for choice in choices
    )


def says_something(event: Any) -> bool:
    """Whether an event is more than a bare role or a chunk without choices. What is no chunk of a chat says something."""
    choices = event.get("choices") if isinstance(event, dict) else None
    if not isinstance(choices, list):
        return True
    return bool(event.get("usage")) or any(not is_silent(choice) for choice in choices)


def is_silent(choice: Any) -> bool:
    """Whether a choice of a chunk holds neither an end nor anything but a role."""
    if not isinstance(choice, dict) or choice.get("finish_reason"):
        return False
    delta = choice.get("delta")
    return isinstance(delta, dict) and not any(value for name, value in delta.items() if name != "role")


def _stopped_in_silence(choice: Any) -> bool:
    if not isinstance(choice, dict) or choice.get("finish_reason") not in ("stop", "error"):
        return False
    message = choice.get("message")
    return isinstance(message, dict) and not any(message.get(name) for name in _SAYS)


def unpacked(body: bytes, encoding: str) -> bytes | None:
    """A body without its content encoding; None where that cannot be done, or is more than is looked at."""
    if encoding == "identity":
        return body
    if encoding not in INFLATABLE:
        return None
    decoder = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        unpacked = decoder.decompress(body, _MAX_UNPACKED_BYTES)
    except zlib.error:
        return b""
    return None if decoder.unconsumed_tail else unpacked
