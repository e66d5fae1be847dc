"""Server-sent events on bytes, both ways, no sockets (WHATWG HTML §9.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

DONE = b"data: [DONE]\n\n"
MAX_EVENT_BYTES = 2**20
"""An event larger than this is not held back until it is whole."""


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

    @property
    def holds(self) -> bool:
        """Whether the beginning of an event waits for its rest."""
        return bool(self._held)

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


def json_events(body: bytes) -> Iterator[dict[str, Any]]:
    """The data of each event that is one JSON object, in order; `[DONE]` and what cannot be read are skipped."""
    for data in events(body):
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            continue
        if isinstance(event, dict):
            yield event
