"""Whether an answer with status 200 is one, as far as its form tells, and whether an event of a stream says anything yet.

Asked only where another engine could do better. Refuses to judge what is said. Pure functions.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from enum import Enum
from typing import Any

import orjson

from engines.answers.tail import INFLATABLE
from engines.answers.terminal import choices_of, fails, meaning_of
from engines.sse import events, whole_events

_MAX_UNPACKED_BYTES = 2**20
_GZIP_OR_ZLIB = 47
_OPENING = frozenset(
    {"ping", "keepalive", "message_start", "content_block_start", "content_block_stop"}
    | {"response.created", "response.queued", "response.in_progress"}
    | {"response.output_item.added", "response.content_part.added", "response.reasoning_summary_part.added"}
)
"""Events that open an answer, or a part of it, and say nothing of it."""


_CHUNKS = ("chat.completion.chunk", "text_completion")


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
        # Messages without content are answers: models end a turn so that has nothing to add.
        return "an error" if answer.get("error") or answer.get("type") == "error" else None
    if isinstance(choices, list) and all(_stopped_in_silence(choice) for choice in choices):
        return "no content"
    return None


def begun(piece: bytes, *, cut: bool = False) -> Begun:
    """Say what these whole events amount to, up to the first that says something. `cut`: the last may be half an event."""
    for data in events(piece):
        if data.strip() in (b"", b"[DONE]"):
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


def says_something(event: Any) -> bool:
    """Whether an event is more than an opening one, a bare role, or a chunk without choices.

    What is no event of an API that is known here says something: a client can use it.
    """
    if not isinstance(event, dict):
        return True
    kind = event.get("type")
    if isinstance(kind, str) and "choices" not in event:
        return kind not in _OPENING
    return bool(event.get("usage")) or not all(map(is_silent, choices_of(event))) or _unknown(event)


def is_silent(choice: Any) -> bool:
    """Whether a choice of a chunk holds neither an end nor anything but a role."""
    if not isinstance(choice, dict) or choice.get("finish_reason"):
        return False
    delta = choice.get("delta") or choice.get("message") or {}
    return isinstance(delta, dict) and not choice.get("text") and not _says(delta)


def says_nothing(message: Any) -> bool:
    """Whether a message of an answer is empty: any member but the role is content (pictures, sounds, reasoning, sources)."""
    return isinstance(message, dict) and not _says(message)


def _says(message: dict[str, Any]) -> bool:
    return any(value for name, value in message.items() if name != "role")


def _unknown(event: dict[str, Any]) -> bool:
    """Whether an event is of no API that is known here: it has members, but neither choices nor what stands beside them."""
    return bool(event) and "choices" not in event and event.get("object") not in _CHUNKS


def _stopped_in_silence(choice: Any) -> bool:
    if not isinstance(choice, dict) or meaning_of(choice.get("finish_reason")) not in ("stop", "error"):
        return False
    return says_nothing(choice.get("message")) and not choice.get("text")


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
