"""Whether a stream ended with a terminal event, told from its last bytes only: an append for each chunk, no parsing."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from engines.answers.terminal import TERMINAL_TYPES, choices_of, ended_choices, fails
from engines.error_body import error_event
from engines.loose_json import parsed
from engines.sse import events

_OPENS_TERMINAL = re.compile(
    rb"event: ?(?:response\.(?:completed|failed|incomplete)|message_stop|error)\r?\n"
    rb'|(?:event: ?[^\r\n]*\r?\n)?data: ?\{"type": ?"(?:response\.(?:completed|failed|incomplete)|message_stop|error)"'
)
_FIELD = re.compile(rb"(?:\A|[\r\n])(?:\xef\xbb\xbf)?(?:data|event|id|retry)?:")
_FINISHED = re.compile(rb'"finish_reason": ?"')
_OUTPUT_TOKENS = re.compile(rb'"(?:completion|output)_tokens": ?([0-9]{1,9})')
_TAIL_BYTES = 8192
_OPENING_BYTES = 128
_INFLATED_BYTES = 2**20
_GZIP_OR_ZLIB = 47
INFLATABLE = frozenset({"gzip", "x-gzip", "deflate"})


class Ends(NamedTuple):
    """How streams of an API end."""

    by_done: bool
    """`[DONE]` follows the terminal event."""
    error_event: Callable[[bytes, str, str], bytes]
    """Makes the event that says that the stream broke off, of its last bytes, a message and a code."""


CHAT_ENDS = Ends(by_done=True, error_event=lambda last, message, code: error_event(message, code))


class Tail:
    """Tells whether a stream ended with a terminal event, from its last bytes only.

    `choices`: how many the stream has. Each must have ended where no `[DONE]` says that all is over.
    """

    __slots__ = ("_choices", "_ended", "_ends", "_holds_fields", "_kept", "_opening", "_size")

    def __init__(self, choices: int = 1, ends: Ends = CHAT_ENDS) -> None:
        self._ends = ends
        self._choices = choices
        self._ended: set[int] = set()
        """Choices that ended, where there are several: in what was let go."""
        self._holds_fields = False
        """Whether any line was seen that an event stream could hold."""
        self._kept: list[bytes] = []
        self._size = 0
        self._opening = b""
        """How the event began that is too large for the tail; empty when all of the last event is in it."""

    def feed(self, chunk: bytes) -> None:
        """Take note of a chunk: an append, and now and then a trim."""
        self._kept.append(chunk)
        self._size += len(chunk)
        if self._size > 4 * _TAIL_BYTES:
            tail = self._trimmed()
            self._kept = [tail]
            self._size = len(tail)

    def done(self) -> bool:
        """Whether the last that came is the last that can come."""
        if not self._ends.by_done:
            return self.finished()
        return _ends_with_done(self._trimmed()) and not self._opening

    def finished(self) -> bool:
        """Whether the stream said that it was over: a terminal event, an error event, or the end of its last choice.

        Only whole events count: text that quotes `[DONE]` ends nothing.
        """
        tail = self._trimmed()
        if self._opening:
            return tail.endswith((b"\n\n", b"\r\n\r\n")) and _OPENS_TERMINAL.match(self._opening) is not None
        if _ends_with_done(tail):
            return True
        for data in reversed(list(events(tail))):
            if data == b"[DONE]":
                return True
            event = _read(data)
            if event is None:
                return False
            if event.get("error") or event.get("type") in TERMINAL_TYPES:
                return True
            if choices_of(event):
                return bool(ended_choices(event)) and self._all_ended(tail)
        return False

    def failed(self) -> bool:
        """Whether the last that the stream said was that it failed."""
        tail = self._trimmed()
        if b'"error"' not in tail and b"event: error" not in tail:
            return False
        for data in reversed(list(events(tail))):
            if data != b"[DONE]":
                event = _read(data)
                return fails(event)
        return False

    def output_tokens(self) -> int | None:
        """The tokens of the answer, as its last events tell; None where they do not."""
        told = _OUTPUT_TOKENS.findall(self._trimmed())
        return int(told[-1]) if told else None

    def error_event(self, message: str, code: str) -> bytes:
        """What tells a client that the stream broke off here."""
        return self._ends.error_event(self._trimmed(), message, code)

    def cut(self, *, delimited: bool) -> bool:
        """Whether the stream ended too early.

        `delimited`: its transfer came to the end that it had declared. Then a body that holds nothing of an event stream
        only calls itself one, and is whole; so is one of no bytes at all.
        """
        return not self.finished() and (self._holds_fields or not delimited)

    def _all_ended(self, tail: bytes) -> bool:
        return self._choices == 1 or len(self._ended | _ended_in(tail)) >= self._choices

    def _trimmed(self) -> bytes:
        whole = b"".join(self._kept)
        start = max(0, len(whole) - _TAIL_BYTES)
        self._holds_fields = self._holds_fields or _FIELD.search(whole) is not None
        if start and self._choices > 1:
            self._ended |= _ended_in(whole)
        body = whole.rstrip(b"\r\n")
        boundary = max(body.rfind(b"\n\n"), body.rfind(b"\r\n\r\n"))
        if boundary >= start or len(whole) <= _TAIL_BYTES:
            if boundary >= 0:
                self._opening = b""
        elif boundary >= 0 or not self._opening:
            self._opening = whole[max(boundary, 0) :].lstrip()[:_OPENING_BYTES]
        return whole[start:]


class InflatedTail(Tail):
    """The same for a stream in gzip or deflate. What cannot be read, or inflates without measure, was not surely cut."""

    __slots__ = ("_decoder", "_readable")

    def __init__(self, choices: int = 1, ends: Ends = CHAT_ENDS) -> None:
        super().__init__(choices, ends)
        self._decoder = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._readable = True

    def feed(self, chunk: bytes) -> None:
        """Take note of a chunk: this one is inflated."""
        if not self._readable:
            return
        try:
            inflated = self._decoder.decompress(chunk, _INFLATED_BYTES)
        except zlib.error:
            inflated, self._readable = b"", False
        if self._decoder.unconsumed_tail:
            self._readable = False
        if inflated:
            super().feed(inflated)

    def cut(self, *, delimited: bool) -> bool:
        """See Tail."""
        return self._readable and super().cut(delimited=delimited)


def tail_of(headers: Mapping[str, str], choices: int = 1, ends: Ends = CHAT_ENDS) -> Tail | None:
    """The tail of an answer with these headers; None where it is no event stream, or one in an unknown encoding."""
    if headers.get("Content-Type", "").partition(";")[0].strip().lower() != "text/event-stream":
        return None
    encoding = headers.get("Content-Encoding", "identity").strip().lower()
    if encoding == "identity":
        return Tail(choices, ends)
    return InflatedTail(choices, ends) if encoding in INFLATABLE else None


def _ends_with_done(tail: bytes) -> bool:
    return (b"\n" + tail).rstrip().endswith((b"\ndata: [DONE]", b"\ndata:[DONE]"))


def _read(data: bytes) -> dict[str, Any] | None:
    """An event's JSON object; None where it is none."""
    event = parsed(data)
    return event if isinstance(event, dict) else None


def _ended_in(body: bytes) -> set[int]:
    """The choices that end in these events."""
    ended: set[int] = set()
    for data in events(body):
        if _FINISHED.search(data):
            ended |= ended_choices(_read(data))
    return ended
