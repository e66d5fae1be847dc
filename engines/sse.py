"""Server-sent events on bytes, both ways, no sockets (WHATWG HTML §9.2)."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator

import orjson

DONE = b"data: [DONE]\n\n"
_TERMINAL_TYPES = frozenset(
    {"response.completed", "response.failed", "response.incomplete", "message_stop", "error"}
)
_OPENS_TERMINAL = re.compile(
    rb'(?:event: ?[^\r\n]*\r?\n)?data: ?\{"type": ?"(?:response\.(?:completed|failed|incomplete)|message_stop|error)"'
)
_ERROR_EVENT = re.compile(rb'^(?:event: ?error\r?\n)?data: ?\{ ?"error"', re.MULTILINE)
_TAIL_BYTES = 8192
_OPENING_BYTES = 128


def encode(data: bytes) -> bytes:
    """One event with that data, which must hold no newline."""
    return b"data: " + data + b"\n\n"


def begins_with_error(chunk: bytes | bytearray) -> bool:
    """Whether a stream whose first chunk this is begins with an error event."""
    return chunk.startswith((b'data: {"error"', b'data:{"error"', b"event: error"))


def split_at_error(piece: bytes) -> tuple[bytes, bytes]:
    """Whole events in two: those before the first error event, and from it on. The second is empty where there is none.

    A quotation mark inside JSON text is always escaped, so nothing that is merely said can look like such an event.
    """
    found = _ERROR_EVENT.search(piece)
    return (piece, b"") if found is None else (piece[: found.start()], piece[found.start() :])


class EventCutter:
    """Cuts a stream's bytes between events only: what ends in the middle of an event waits for the rest of it."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = b""

    def whole(self, chunk: bytes) -> bytes:
        """The whole events that `chunk` completes; empty where it completes none."""
        held = self._held + chunk if self._held else chunk
        if held.endswith(b"\n\n"):
            self._held = b""
            return held
        after = max(held.rfind(b"\n\n") + 2, held.rfind(b"\r\n\r\n") + 4, held.rfind(b"\r\r") + 2)
        if after <= 3:
            self._held = held
            return b""
        self._held = held[after:]
        return held[:after]

    def rest(self) -> bytes:
        """What is left at the end, without the blank line that ends an event."""
        held, self._held = self._held, b""
        return held


async def whole_events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """The same bytes, cut only between events. What is left at the end comes last; it is lost if `chunks` raises."""
    cutter = EventCutter()
    async for chunk in chunks:
        if whole := cutter.whole(chunk):
            yield whole
    if held := cutter.rest():
        yield held


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
    """Tells whether a stream ended with a terminal event, from its last bytes only."""

    __slots__ = ("_kept", "_opening", "_size")

    def __init__(self) -> None:
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

    @property
    def began(self) -> bool:
        """Whether anything came at all."""
        return bool(self._kept)

    def finished(self) -> bool:
        """Whether the stream said that it was over: a terminal event, an error event, or a last choice that ended.

        Only whole events count: text that quotes `[DONE]` ends nothing.
        """
        tail = self._trimmed()
        if self._opening:
            return tail.endswith((b"\n\n", b"\r\n\r\n")) and _OPENS_TERMINAL.match(self._opening) is not None
        if tail.rstrip().endswith((b"\ndata: [DONE]", b"\ndata:[DONE]")):
            return True
        for data in reversed(list(events(tail))):
            if data == b"[DONE]":
                return True
            said = _says(data)
            if said is not None:
                return said
        return False

    def _trimmed(self) -> bytes:
        whole = b"".join(self._kept)
        start = max(0, len(whole) - _TAIL_BYTES)
        body = whole.rstrip(b"\r\n")
        boundary = max(body.rfind(b"\n\n"), body.rfind(b"\r\n\r\n"))
        if boundary >= start or len(whole) <= _TAIL_BYTES:
            if boundary >= 0:
                self._opening = b""
        elif boundary >= 0 or not self._opening:
            self._opening = whole[max(boundary, 0) :].lstrip()[:_OPENING_BYTES]
        return whole[start:]


def _says(data: bytes) -> bool | None:
    """Whether an event ends its stream; None when it says nothing of that, as a usage chunk does."""
    try:
        event = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    if not isinstance(event, dict):
        return False
    if event.get("error") or event.get("type") in _TERMINAL_TYPES:
        return True
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices:
        return None
    return any(isinstance(choice, dict) and choice.get("finish_reason") for choice in choices)
