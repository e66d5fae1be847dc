"""Reads the part of a streamed answer that came before it broke off, and makes another engine's stream continue it.

Pure functions on events; they ask nobody.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from engines.errors import StreamBroken
from engines.sse import DONE, EventCutter, encode, events

_HEAD = ("id", "object", "created", "model", "system_fingerprint", "service_tier")
_FAILURES = ("server", "internal", "overloaded", "api_error")


@dataclass(frozen=True, slots=True)
class PartialAnswer:
    """What a client has been sent of one choice of plain text."""

    head: Mapping[str, Any]
    """What every chunk of a stream repeats: id, model and so on. Empty before the first one."""
    text: str
    role_told: bool
    pieces: int
    """Deltas that carried text: at least one token each."""


def read_partial(sent: bytes) -> PartialAnswer | None:
    """The partial answer in these events; None where it cannot be continued: finished, more than text, or not understood."""
    head: dict[str, Any] = {}
    said: list[str] = []
    role_told = False
    for data in events(sent):
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            return None
        choices = chunk.get("choices") if isinstance(chunk, dict) else None
        if not isinstance(choices, list) or len(choices) > 1:
            return None
        head = head or {name: chunk[name] for name in _HEAD if name in chunk}
        for choice in choices:
            if choice.get("index") != 0 or choice.get("finish_reason") or choice.get("logprobs"):
                return None
            delta = choice.get("delta") or {}
            if any(value for name, value in delta.items() if name not in ("role", "content")):
                return None
            role_told = role_told or bool(delta.get("role"))
            if isinstance(content := delta.get("content"), str) and content:
                said.append(content)
    return PartialAnswer(head, "".join(said), role_told, len(said))


def engine_failed(event: bytes) -> bool:
    """Whether the error event at the beginning of `event` tells of the engine's failure, not of a refusal to say more."""
    for data in events(event):
        try:
            error = orjson.loads(data)["error"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return False
        if not isinstance(error, dict):
            return False
        code, kind = error.get("code"), error.get("type")
        if isinstance(code, int):
            return code >= 500
        return isinstance(kind, str) and any(sign in kind.lower() for sign in _FAILURES)
    return False


async def spliced(chunks: AsyncIterator[bytes], partial: PartialAnswer, tokens: int) -> AsyncIterator[bytes]:
    """A new engine's stream as the rest of the answer: under its id, its role not told again, tokens added up.

    `tokens`: of the partial answer. An event that cannot be read passes as it is. Raises StreamBroken for one too large.
    """
    follower, cutter = _Follower(partial, tokens), EventCutter()
    async for chunk in chunks:
        piece = cutter.whole(chunk)
        if cutter.given_up:
            raise StreamBroken("An event of the engine that carried on was too large.")
        if rest := follower.rest(piece):
            yield rest
    if rest := follower.rest(cutter.rest()):
        yield rest


class _Follower:
    """Rewrites the events of a continuation, so that they continue the partial answer and repeat nothing of it."""

    def __init__(self, partial: PartialAnswer, tokens: int) -> None:
        self._partial = partial
        self._tokens = tokens
        # The new engine was given the text without the blanks at its end, and will say them itself.
        self._blanks = partial.text[len(partial.text.rstrip()) :]

    def rest(self, piece: bytes) -> bytes:
        """Whole events; empty where they say nothing new."""
        return b"".join(map(self.followed, events(piece)))

    def followed(self, data: bytes) -> bytes:
        """One event, encoded; empty for one that says nothing new."""
        if data == b"[DONE]":
            return DONE
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            return encode(data)
        choices = chunk.get("choices") if isinstance(chunk, dict) else None
        if not isinstance(choices, list):
            return encode(data)
        chunk |= self._partial.head
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self._add_up(usage)
        for choice in choices:
            if isinstance(choice, dict) and isinstance(delta := choice.get("delta"), dict):
                self._not_again(delta)
        silent = choices and all(_says_nothing(choice) for choice in choices)
        return b"" if silent and not usage else encode(orjson.dumps(chunk))

    def _not_again(self, delta: dict[str, Any]) -> None:
        if self._partial.role_told:
            delta.pop("role", None)
        content = delta.get("content")
        if not isinstance(content, str) or not content or not self._blanks:
            return
        same = 0
        while same < min(len(content), len(self._blanks)) and content[same] == self._blanks[same]:
            same += 1
        delta["content"] = content[same:]
        # Only an unbroken run from the very beginning is a repetition.
        self._blanks = self._blanks[same:] if same == len(content) else ""

    def _add_up(self, usage: dict[str, Any]) -> None:
        """To the new engine the partial answer was part of the prompt; to the client it is part of the answer."""
        prompt, said = usage.get("prompt_tokens"), usage.get("completion_tokens")
        if isinstance(prompt, int) and isinstance(said, int):
            given = self._tokens if self._partial.text else 0
            usage["prompt_tokens"] = max(0, prompt - given)
            usage["completion_tokens"] = said + given
            usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]


def _says_nothing(choice: Any) -> bool:
    if not isinstance(choice, dict) or choice.get("finish_reason"):
        return False
    delta = choice.get("delta")
    return isinstance(delta, dict) and not any(delta.values())
