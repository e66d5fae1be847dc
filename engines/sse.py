"""Server-sent events on bytes, both ways, no sockets (WHATWG HTML §9.2)."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

DONE = b"data: [DONE]\n\n"
_TERMINALS = (
    b"[DONE]",
    b'"response.completed"',
    b'"response.failed"',
    b'"response.incomplete"',
    b"response.completed\n",
    b"message_stop",
)
_TAIL_BYTES = 8192


def encode(data: bytes) -> bytes:
    """One event with that data, which must hold no newline."""
    return b"data: " + data + b"\n\n"


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
    """Remembers how a stream ended, without keeping it: was its last word a terminal event?"""

    __slots__ = ("_kept", "_size")

    def __init__(self) -> None:
        self._kept: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> None:
        """Take note of a chunk: an append, and now and then a trim."""
        self._kept.append(chunk)
        self._size += len(chunk)
        if self._size > 4 * _TAIL_BYTES:
            tail = b"".join(self._kept)[-_TAIL_BYTES:]
            self._kept = [tail]
            self._size = len(tail)

    @property
    def began(self) -> bool:
        """Whether anything came at all."""
        return bool(self._kept)

    def finished(self) -> bool:
        """Whether the stream said that it was over: a terminal event, an error event, or a finish reason."""
        tail = b"".join(self._kept)[-_TAIL_BYTES:]
        if any(mark in tail for mark in _TERMINALS):
            return True
        return any(_ends_a_choice(data) for data in events(tail))


def _ends_a_choice(data: bytes) -> bool:
    try:
        event = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    if not isinstance(event, dict):
        return False
    if event.get("error") or event.get("type") == "error":
        return True
    choices = event.get("choices")
    return isinstance(choices, list) and any(isinstance(c, dict) and c.get("finish_reason") for c in choices)
