"""Reads the part of a streamed answer that came before it broke off, and makes another engine's stream continue it.

Pure functions on events; they ask nobody.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from engines.answers.answer import assembled
from engines.answers.beginning import is_silent
from engines.answers.choices import Choices
from engines.answers.heard import Heard
from engines.answers.terminal import fails
from engines.chat import estimated_tokens
from engines.errors import StreamBroken
from engines.loose_json import parsed, parsed_object
from engines.seam import NoMatch, Seam, anchor_of, instruction
from engines.sse import DONE, EventCutter, encode, events

_HEAD = ("id", "object", "created", "model", "system_fingerprint", "service_tier")
_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r){2,}")
_REASONING = ("reasoning", "reasoning_content")
_FAILURES = ("server", "internal", "overloaded", "rate_limit", "api_error")
_ENGINES_OWN = frozenset({401, 402, 408, 425, 429})
"""Codes of errors that another engine need not meet."""


@dataclass(frozen=True, slots=True)
class PartialAnswer:
    """The part of one choice of plain text that a client has been sent."""

    head: Mapping[str, Any]
    """What every chunk of a stream repeats: id, model and so on. Empty before the first one."""
    text: str
    role_told: bool
    pieces: int
    """Deltas that carried text: at least one token each."""


def read_partial(sent: bytes) -> PartialAnswer | None:
    """The partial answer in these events; None if it cannot be continued: finished, more than text, or not understood."""
    merged, heard = Choices(), Heard()
    assembled(sent, merged, streamed=True, heard=heard)
    so_far = merged.text_so_far()
    if so_far is None:
        return None
    members, text, role_told = so_far
    return PartialAnswer(
        {name: members[name] for name in _HEAD if name in members}, text, role_told, heard.pieces
    )


def split_at_failure(piece: bytes) -> tuple[bytes, bytes]:
    """Whole events in two: before the first that tells of the engine's failure, and from it on, or nothing.

    A refusal to say more is no such event, and nobody's to overrule. A quotation mark inside JSON text is always escaped, so
    nothing that is merely said can look like one.
    """
    start = 0
    while start < len(piece):
        end = _BLANK_LINE.search(piece, start)
        after = end.end() if end else len(piece)
        for data in events(piece[start:after]) if b'"error"' in piece[start:after] else ():
            if _engine_failed(data):
                return piece[:start], piece[start:]
        start = after
    return piece, b""


def _engine_failed(data: bytes) -> bool:
    told = parsed(data)
    if not fails(told):
        return False
    error = told.get("error")
    if not isinstance(error, dict):
        return not error
    code, kind = error.get("code"), error.get("type")
    if isinstance(code, int):
        return code >= 500 or code in _ENGINES_OWN
    signs = [sign.lower() for sign in (kind, code) if isinstance(sign, str)]
    return any(failure in sign for sign in signs for failure in _FAILURES)


async def spliced(
    chunks: AsyncIterator[bytes], partial: PartialAnswer, tokens: int, *, repeats: bool = False
) -> AsyncIterator[bytes]:
    """A new engine's stream as the rest of the answer: under its id, its role not told again, tokens added up.

    `tokens`: of the partial answer. `repeats`: the new engine was asked to repeat the end of it (engines.seam); nothing
    comes before that is found. An event that cannot be read passes as it is. Raises StreamBroken for one too large, for
    an error before anything new was said, and NoMatch.
    """
    follower, cutter = _Follower(partial, tokens, repeats=repeats), EventCutter()
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

    def __init__(self, partial: PartialAnswer, tokens: int, *, repeats: bool) -> None:
        self._partial = partial
        self._tokens = tokens
        self._seam = Seam(partial.text) if repeats else None
        self._repeated_pieces = 0
        self._began = False
        # An engine that was given the text was so without the blanks at its end, and will say them itself.
        self._blanks = "" if repeats else partial.text[len(partial.text.rstrip()) :]

    def rest(self, piece: bytes) -> bytes:
        """Whole events; empty where they say nothing new."""
        return b"".join(map(self.followed, events(piece)))

    def followed(self, data: bytes) -> bytes:
        """One event, encoded; empty for one that says nothing new."""
        if data == b"[DONE]":
            if self._waits:
                raise NoMatch
            return DONE
        chunk = parsed_object(data)
        if not self._began and fails(chunk):
            raise StreamBroken("The engine that was to carry on failed.")
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            return b"" if self._waits else encode(data)
        return self._continued(chunk, choices)

    @property
    def _waits(self) -> bool:
        """Tells whether it is not found yet where what is said becomes new."""
        return self._seam is not None and not self._seam.found

    def _continued(self, chunk: dict[str, Any], choices: list[Any]) -> bytes:
        chunk |= self._partial.head
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self._add_up(usage)
        for choice in choices:
            if isinstance(choice, dict) and isinstance(delta := choice.get("delta"), dict):
                self._not_again(choice, delta)
        if self._waits:
            return b""
        silent = choices and all(is_silent(one) and not one["delta"].get("role") for one in choices)
        if silent and not usage:
            return b""
        self._began = True
        return encode(orjson.dumps(chunk))

    def _not_again(self, choice: Mapping[str, Any], delta: dict[str, Any]) -> None:
        if self._partial.role_told:
            delta.pop("role", None)
        content = delta.get("content")
        if self._seam is not None:
            for name in _REASONING:
                delta.pop(name, None)
            if not self._seam.found:
                self._repeated_pieces += bool(content)
                last = bool(choice.get("finish_reason"))
                delta["content"] = self._seam.said(content if isinstance(content, str) else "", last=last)
                return
        if not isinstance(content, str) or not content or not self._blanks:
            return
        same = 0
        while same < min(len(content), len(self._blanks)) and content[same] == self._blanks[same]:
            same += 1
        delta["content"] = content[same:]
        # Only an unbroken run from the very beginning is a repetition.
        self._blanks = self._blanks[same:] if same == len(content) else ""

    def _add_up(self, usage: dict[str, Any]) -> None:
        """To the new engine the partial answer was part of the prompt; to the client it is part of the answer, once."""
        prompt, said = usage.get("prompt_tokens"), usage.get("completion_tokens")
        if not isinstance(prompt, int) or not isinstance(said, int):
            return
        given = added = self._tokens if self._partial.text.strip() else 0
        if self._seam is not None:
            added += estimated_tokens(instruction(anchor_of(self._partial.text)))
            said = max(0, said - self._repeated_pieces)
        usage["prompt_tokens"] = max(0, prompt - added)
        usage["completion_tokens"] = said + given
        usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
