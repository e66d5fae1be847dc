"""Reads an answer as its bytes pass by, without holding it: what it told, whether it ended, what it used.

Fed every chunk, of any API. It unpacks what is packed, cuts a stream into its events, and has `Heard` take note of each.
What is long is not parsed: of an answer, or an event, over a mebibyte the two ends are read, where usage is told. It never
raises: what cannot be read is not known. Nor is an answer of which one chunk unpacks to over 8 MiB: it would hold the event
loop.
"""

from __future__ import annotations

import re
import zlib
from typing import Any

import orjson

from engines.answers.heard import Heard
from engines.answers.usage import usage_of
from engines.chat import Usage


class Reader:
    """See the module. Feed it every chunk, then ask; it may be asked at any moment, and again."""

    def __init__(self, content_type: str, content_encoding: str = "") -> None:
        self.streamed = content_type.partition(";")[0].strip().lower() == "text/event-stream"
        self._decoder, self._readable = _decoder(content_encoding)
        self._heard = Heard()
        self.size_bytes = 0
        """Of all that passed, without its content encoding if that can be read."""
        self._unread_bytes = 0
        """Of events and answers that were too long to be parsed."""
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._held = _Ends()
        """The answer; of a stream the line that has begun."""

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes. Most are only put aside: they are read 64 KiB at a time, or when somebody asks."""
        unpacked_bytes = 0
        while chunk and self._decoder is not None:
            try:
                piece = self._decoder.decompress(chunk, _PIECE_BYTES)
            except zlib.error:
                self._decoder, self._readable = None, False
                return
            self._feed(piece)
            unpacked_bytes += len(piece)
            if unpacked_bytes > _MOST_UNPACKED_BYTES:
                self._decoder, self._readable = None, False
                return
            chunk = self._decoder.unconsumed_tail
        self._feed(chunk)

    @property
    def heard(self) -> Heard:
        """What it has told so far."""
        self._read_waiting()
        held = self._held
        if self.streamed and held.is_one_of(_DONE):
            self._heard.done()
        due = held.size_bytes and held.begins_with(_DATA if self.streamed else b"")
        parsed = held.parsed(_DATA) if due else None
        if parsed is not None:
            # A whole answer; or a stream's last line, which no line break ended.
            self._take(held, parsed)
            self._held = _Ends()
        return self._heard

    @property
    def model(self) -> str:
        """The model that it says it is of; empty if it does not say."""
        return self.heard.told.model

    def told(self) -> Usage | None:
        """What it used by its own word; None if it did not say, or not at its end."""
        heard = self.heard
        return heard.told.amounts() if heard.believed or not heard.told.usage else None

    def usage(self, prompt_tokens: int, *, text: bool = True) -> Usage:
        """What it used: see Heard. What cannot be read, or is half there, is estimated by its size."""
        heard = self.heard
        unread_bytes = self._unread_bytes + (0 if self.streamed else self._held.size_bytes)
        if not self._readable:
            unread_bytes = self.size_bytes
        heard.whole_characters = max(heard.whole_characters, unread_bytes)
        return heard.usage(prompt_tokens, text=text)

    def _feed(self, chunk: bytes) -> None:
        self.size_bytes += len(chunk)
        if not self._readable or not chunk:
            return
        if not self.streamed:
            self._held.feed(chunk)
            return
        self._waiting.append(chunk)
        self._waiting_bytes += len(chunk)
        if self._waiting_bytes > _READ_AT_ONCE_BYTES:
            self._read_waiting()

    def _read_waiting(self) -> None:
        if not self._waiting:
            return
        lines = b"".join(self._waiting).split(b"\n")
        self._waiting, self._waiting_bytes = [], 0
        for line in lines[:-1]:
            if not line and not self._held.size_bytes:
                # What ends an event.
                continue
            self._held.feed(line)
            self._end_of_line()
        self._held.feed(lines[-1])

    def _end_of_line(self) -> None:
        line, self._held = self._held, _Ends()
        if line.is_one_of(_DONE):
            self._heard.done()
        elif line.begins_with(_DATA):
            self._take(line, line.parsed(_DATA))

    def _take(self, held: _Ends, parsed: Any) -> None:
        self._heard.hear(parsed, whole=not self.streamed)
        self._heard.told.images = max(self._heard.told.images, held.images)
        if held.is_long:
            self._unread_bytes += held.size_bytes


_PIECE_BYTES = 256 * 1024
_MOST_UNPACKED_BYTES = 8 * 2**20
"""What one chunk may unpack to. A chunk of 64 KiB of a stream, whose events are nearly alike, becomes 4 MiB."""
_DATA = b"data:"
_READ_AT_ONCE_BYTES = 64 * 1024
_WHOLE_BYTES = 2**20
_END_BYTES = 64 * 1024
_MOST_OBJECT_BYTES = 64 * 1024
"""A `usage` object larger than this is none."""
_DONE = (b"data: [DONE]", b"data:[DONE]")
_MEMBER = re.compile(rb'(?<!\\)"usage"\s*:\s*(?=\{)')
_NAME = re.compile(rb'(?<!\\)"(model|service_tier|type)"\s*:\s*"([^"\\]{1,256})"')
_IMAGE_KEY = b'"b64_json"'


class _Ends:
    """A JSON text that passes by: the whole of it up to a mebibyte, of a longer one 64 KiB of its beginning and its end."""

    __slots__ = ("_head", "_tail", "images", "size_bytes")

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail: bytearray | None = None
        self.size_bytes = 0
        self.images = 0
        """Images seen in one that is longer than what is held."""

    def feed(self, chunk: bytes) -> None:
        """The next bytes."""
        self.size_bytes += len(chunk)
        if self._tail is None:
            self._head += chunk
            if len(self._head) <= _WHOLE_BYTES:
                return
            self.images = self._head.count(_IMAGE_KEY)
            self._tail = self._head[-_END_BYTES:]
            del self._head[_END_BYTES:]
            return
        seam = bytes(self._tail[-len(_IMAGE_KEY) + 1 :]) + chunk
        self.images += seam.count(_IMAGE_KEY)
        self._tail += chunk
        if len(self._tail) > 4 * _END_BYTES:
            del self._tail[:-_END_BYTES]

    def begins_with(self, prefix: bytes) -> bool:
        """Whether it does."""
        return self._head.startswith(prefix)

    def is_one_of(self, texts: tuple[bytes, ...]) -> bool:
        """Whether it is short, and one of these but for white space at its end."""
        return self.size_bytes < 20 and bytes(self._head).rstrip() in texts

    @property
    def is_long(self) -> bool:
        """Whether it is not held as a whole."""
        return self._tail is not None

    def parsed(self, prefix: bytes) -> Any:
        """The whole of it as JSON, without the prefix; of a longer one the members that tell its usage."""
        if self._tail is None:
            try:
                return orjson.loads(memoryview(self._head.removeprefix(prefix)))
            except orjson.JSONDecodeError:
                return None
        return _members(bytes(self._head)) | _members(bytes(self._tail))


def _members(text: bytes) -> dict[str, Any]:
    """The last `usage` in a part of a JSON text, and the names in it."""
    found: dict[str, Any] = {
        key.decode(): value.decode("utf-8", "replace") for key, value in _NAME.findall(text)
    }
    for match in reversed(list(_MEMBER.finditer(text))):
        end = text.find(b"}", match.end())
        while 0 <= end < match.end() + _MOST_OBJECT_BYTES:
            try:
                found["usage"] = orjson.loads(text[match.end() : end + 1])
            except orjson.JSONDecodeError:
                end = text.find(b"}", end + 1)
                continue
            if usage_of(found) is not None:
                return found
            break
        found.pop("usage", None)
    return found


def _decoder(encoding: str) -> tuple[Any, bool]:
    """What undoes a content encoding, None where there is none; and whether the body can be read at all."""
    match encoding.strip().lower():
        case "" | "identity":
            return None, True
        case "gzip" | "x-gzip" | "deflate":
            return zlib.decompressobj(zlib.MAX_WBITS | 32), True
    return None, False
