"""An answer as one object, whichever way it came, and the body that it came in. Pure; off the request path."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from engines.answers.heard import Heard
from engines.answers.reader import Reader
from engines.answers.terminal import fails, meaning_of
from engines.chat import Usage, message_text
from engines.loose_json import member, objects
from engines.sse import events

_GZIP_OR_ZLIB = 47
_INFLATED_AT_ONCE_BYTES = 2**20
_CALLS = "tool_calls"
_MAX_INFLATED_BYTES = 16 * 2**20
"""A megabyte of gzip can hold a gigabyte: more than this is not read."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """An answer as one object, said as a chat completion."""

    completion: dict[str, Any]
    """The `chat.completion` object."""
    whole: bool
    """Each choice came to its end, and every part of it was understood: it may be replayed."""
    own: dict[str, Any] | None = None
    """The answer as its own API says it in one piece, if that is no chat completion."""
    unmerged: tuple[str, ...] = ()
    """Members that its pieces say differently, so that nobody can tell what they are together; it is not whole then."""
    heard: Heard = field(default_factory=Heard)
    """What it told of its end and its usage."""

    def choices(self) -> list[dict[str, Any]]:
        """The choices, each an object."""
        return objects(self.completion.get("choices"))

    def text(self) -> str:
        """The first choice's text."""
        return message_text(member(self._message(), "content"))

    def _message(self) -> Any:
        """That of the first choice."""
        return next((choice.get("message") for choice in self.choices()), None)

    def finish_reasons(self) -> list[str]:
        """Why each choice ended, as a chat completion calls it; empty if it did not."""
        return [meaning_of(choice.get("finish_reason")) for choice in self.choices()]

    def finish_reason(self) -> str:
        """Why the first choice ended; empty if it did not."""
        return next(iter(self.finish_reasons()), "")

    def calls_tools(self) -> bool:
        """Whether any choice calls a tool."""
        messages = [choice.get("message") for choice in self.choices()]
        return any(member(said, "tool_calls") or member(said, "function_call") for said in messages)

    def calls(self) -> list[dict[str, Any]]:
        """The tools that the first choice calls: each with its `name` and `arguments`."""
        message = self._message()
        called = objects(member(message, "tool_calls"))
        calls = [call.get("function") or call.get("custom") or {} for call in called]
        return [call for call in (*calls, member(message, "function_call")) if isinstance(call, dict)]

    def said(self) -> str:
        """The first choice's text; where it calls tools the calls as JSON without ids, so that two can be compared: calls
        that are made at once have no order, and neither have their arguments."""
        return _calls_said(map(_by_value, self.calls())) if self.calls_tools() else self.text()

    def fingerprint(self) -> str:
        """A digest of what it tells of the engine: its model's name and `system_fingerprint`; empty if it tells neither."""
        told = [self.completion.get(name) for name in ("model", "system_fingerprint")]
        return hashlib.blake2b(orjson.dumps(told), digest_size=8).hexdigest() if any(told) else ""

    def usage(self) -> Usage | None:
        """Tokens as the engine counted them; None if it did not say, or not at the end."""
        return self.heard.told.amounts() if self.heard.believed else None

    def used(self, prompt_tokens: int) -> Usage:
        """The same, else estimated upwards (engines.answers.heard), with this many tokens of a prompt."""
        return self.heard.usage(prompt_tokens)


class Merged(Protocol):
    """An answer of one API that is being merged."""

    understood: bool
    """All that came could be read."""

    def hear(self, event: dict[str, Any]) -> None:
        """Merge the next event of a stream."""
        ...

    def hear_whole(self, answer: dict[str, Any]) -> None:
        """Take an answer that came in one piece."""
        ...

    def assembled(self, heard: Heard) -> Assembled | None:
        """The answer, as far as it came; None if nothing of one did."""
        ...


def assembled(body: bytes, merged: Merged, *, streamed: bool, heard: Heard | None = None) -> Assembled | None:
    """Read all of an answer's bytes into one object; None if there is none in them."""
    heard = heard or Heard()
    for data in events(body) if streamed else (body,):
        if streamed and data.strip() in (b"", b"[DONE]"):
            heard.done() if data.strip() else None
            continue
        try:
            said = orjson.loads(data)
        except orjson.JSONDecodeError:
            said = None
        if not isinstance(said, dict) or (streamed and fails(said)):
            merged.understood = False
        if isinstance(said, dict):
            heard.hear(said, whole=not streamed)
            (merged.hear if streamed else merged.hear_whole)(said)
    return merged.assembled(heard)


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a finished answer, as far as it was kept."""

    chunks: Sequence[bytes] = ()
    """All of it; nothing where it was too large to be kept."""
    size_bytes: int = 0
    content_type: str = ""
    encoded: bool = False
    """Compressed: it has a content encoding."""
    passed: Reader | None = None
    """Read it as it passed by, if it was too large to be kept."""

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

    def reader(self) -> Reader | None:
        """What it told as it passed, if it cannot be merged; None if nothing of it came."""
        if self.passed is not None or not self.chunks:
            return self.passed
        # An encoding that is not known here makes it unreadable, and then its size tells.
        reader = Reader(self.content_type, "gzip" if self.encoded else "")
        for chunk in self.chunks:
            reader.feed(chunk)
        return reader

    def read(self, merge: Callable[[], Merged]) -> Assembled | None:
        """Merge it into one object, by the API that `merge` knows; None if it holds none that can be read."""
        body = self.readable()
        return None if body is None else assembled(body, merge(), streamed=self.streamed)


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


def _calls_said(calls: Iterable[Any]) -> str:
    ordered = sorted(calls, key=lambda call: json.dumps(call, sort_keys=True))
    return json.dumps({_CALLS: ordered}, sort_keys=True)


def says_calls(text: str) -> bool:
    """Tell if a text is what Assembled.said makes of calls of tools."""
    return text.startswith(f'{{"{_CALLS}": [')


def _by_value(call: Any) -> Any:
    """A call of a function with its arguments parsed, where they are JSON."""
    try:
        return {**call, "arguments": orjson.loads(call["arguments"])}
    except (TypeError, KeyError, ValueError):
        return call
