"""Server-sent events on bytes, both ways, no sockets (WHATWG HTML §9.2)."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from engines.error_body import error_event

DONE = b"data: [DONE]\n\n"
MAX_EVENT_BYTES = 2**20
"""An event larger than this is not held back until it is whole."""
_TERMINAL_TYPES = frozenset(
    {"response.completed", "response.failed", "response.incomplete", "message_stop", "error"}
)
_OPENS_TERMINAL = re.compile(
    rb"event: ?(?:response\.(?:completed|failed|incomplete)|message_stop|error)\r?\n"
    rb'|(?:event: ?[^\r\n]*\r?\n)?data: ?\{"type": ?"(?:response\.(?:completed|failed|incomplete)|message_stop|error)"'
)
_FIELD = re.compile(rb"(?:\A|[\r\n])(?:\xef\xbb\xbf)?(?:data|event|id|retry)?:")
_FINISHED = re.compile(rb'"finish_reason": ?"')
_TAIL_BYTES = 8192
_OPENING_BYTES = 128
_INFLATED_BYTES = 2**20
_GZIP_OR_ZLIB = 47
INFLATABLE = frozenset({"gzip", "x-gzip", "deflate"})


def encode(data: bytes) -> bytes:
    """One event with that data, which must hold no newline."""
    return b"data: " + data + b"\n\n"


def encode_typed(event: Mapping[str, Any]) -> bytes:
    """One event that is named after its `type`, as of Responses and Messages."""
    return b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), orjson.dumps(event))


def begins_with_error(chunk: bytes | bytearray) -> bool:
    """Whether a stream whose first chunk this is begins with an error event."""
    return chunk.startswith((b'data: {"error"', b'data:{"error"', b"event: error"))


class EventCutter:
    """Cuts a stream's bytes between events only: what ends in the middle of an event waits for the rest of it.

    An event larger than `limit_bytes` is not waited for: from there on everything passes as it comes.
    """

    __slots__ = ("_held", "_held_bytes", "_limit_bytes", "given_up")

    def __init__(self, limit_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held: list[bytes] = []
        self._held_bytes = 0
        self.given_up = False
        """An event was too large; what came since was cut anywhere."""

    def whole(self, chunk: bytes) -> bytes:
        """The whole events that `chunk` completes; empty where it completes none."""
        if self.given_up:
            return chunk
        if not self._held:
            if chunk.endswith(b"\n\n"):
                return chunk
            after = _after_last_blank_line(chunk)
        else:
            # A blank line may have begun before this chunk.
            after = max(0, _after_last_blank_line(self._held[-1][-1:] + chunk) - 1)
        if after:
            whole = b"".join((*self._held, chunk[:after]))
            self._held = [chunk[after:]] if after < len(chunk) else []
            self._held_bytes = len(chunk) - after
            return whole
        if chunk:
            self._held.append(chunk)
            self._held_bytes += len(chunk)
        if self._held_bytes <= self._limit_bytes:
            return b""
        self.given_up = True
        return self.rest()

    def rest(self) -> bytes:
        """What is left at the end, without the blank line that ends an event."""
        held, self._held = b"".join(self._held), []
        return held


def whole_events(body: bytes) -> bytes:
    """`body` without half an event at its end."""
    return body[: _after_last_blank_line(body)]


def _after_last_blank_line(data: bytes) -> int:
    """The position after the last blank line; 0 where there is none.

    Lines end in LF, CRLF or CR, mixed or not. So a blank line shows as one of three pairs, and a LF after the last of them
    still belongs to it.
    """
    last = max(data.rfind(b"\n\n"), data.rfind(b"\n\r"), data.rfind(b"\r\r"))
    if last < 0:
        return 0
    after = last + 2
    return after + 1 if data[after - 1 : after + 1] == b"\r\n" else after


def events(body: bytes) -> Iterator[bytes]:
    """The data of every complete or final event in `body`, in order; comments and other fields are skipped.

    Lines may end in LF, CRLF or CR; a BOM at the start is ignored; several data lines join with a newline.
    """
    if body.startswith(b"\xef\xbb\xbf"):
        body = body[3:]
    data: list[bytes] = []
    for line in body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"):
        if not line:
            if data:
                yield b"\n".join(data)
                data = []
        elif line.startswith(b"data:"):
            value = line[5:]
            data.append(value[1:] if value.startswith(b" ") else value)
    if data:
        yield b"\n".join(data)


class Tail:
    """Tells whether a stream ended with a terminal event, from its last bytes only.

    `choices`: how many the stream has. Each must have ended where no `[DONE]` says that all is over.
    """

    __slots__ = ("_choices", "_ended", "_holds_fields", "_kept", "_opening", "_size")

    def __init__(self, choices: int = 1) -> None:
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
        """Whether the last that came is `[DONE]`."""
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
            if event.get("error") or event.get("type") in _TERMINAL_TYPES:
                return True
            choices = event.get("choices")
            if isinstance(choices, list) and choices:
                return bool(_finished(choices)) and self._all_ended(tail)
        return False

    def failed(self) -> bool:
        """Whether the last that the stream said was that it failed."""
        tail = self._trimmed()
        if b'"error"' not in tail and b"event: error" not in tail:
            return False
        for data in reversed(list(events(tail))):
            if data != b"[DONE]":
                event = _read(data)
                return event is not None and _tells_error(event)
        return False

    def error_event(self, message: str, code: str) -> bytes:
        """What tells a client that the stream broke off here."""
        return error_event(message, code)

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

    def __init__(self, choices: int = 1) -> None:
        super().__init__(choices)
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


def tail_of(headers: Mapping[str, str], choices: int = 1) -> Tail | None:
    """The tail of an answer with these headers; None where it is no event stream, or one in an unknown encoding."""
    if headers.get("Content-Type", "").partition(";")[0].strip().lower() != "text/event-stream":
        return None
    encoding = headers.get("Content-Encoding", "identity").strip().lower()
    if encoding == "identity":
        return Tail(choices)
    return InflatedTail(choices) if encoding in INFLATABLE else None


def _ends_with_done(tail: bytes) -> bool:
    return (b"\n" + tail).rstrip().endswith((b"\ndata: [DONE]", b"\ndata:[DONE]"))


def _read(data: bytes) -> dict[str, Any] | None:
    """An event's JSON object; None where it is none."""
    try:
        event = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return event if isinstance(event, dict) else None


def _tells_error(event: dict[str, Any]) -> bool:
    choices = event.get("choices")
    return (
        bool(event.get("error"))
        or event.get("type") in ("error", "response.failed")
        or (
            isinstance(choices, list)
            and any(isinstance(c, dict) and c.get("finish_reason") == "error" for c in choices)
        )
    )


def _finished(choices: list[Any]) -> set[int]:
    """The indices of those that have a finish reason."""
    ended = (c.get("index") for c in choices if isinstance(c, dict) and c.get("finish_reason"))
    return {index if isinstance(index, int) else 0 for index in ended}


def _ended_in(body: bytes) -> set[int]:
    """The choices that end in these events."""
    ended: set[int] = set()
    for data in events(body):
        event = _read(data) if _FINISHED.search(data) else None
        choices = event.get("choices") if event is not None else None
        if isinstance(choices, list):
            ended |= _finished(choices)
    return ended
