"""Reads what an answer used out of it, whichever API it came by: chat and text completions, embeddings, Responses, Messages,
images, transcriptions. Pure; an answer that passes by is read without being held.

The APIs count differently. OpenAI's prompt tokens contain those read from a cache; Anthropic's `input_tokens` contain
neither those nor the ones written to one. Streams say it in their last events, piece by piece or all at once, in a chunk of
its own or in one that has content, too: what is said later adds to what was said before.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from engines.chat import CHARACTERS_PER_TOKEN, Usage

_MOST = 10**12
"""More tokens than this are nonsense."""
_MOST_OBJECT_BYTES = 64 * 1024
"""A `usage` object larger than this is none."""
_SAYING = frozenset({"prompt_tokens", "input_tokens", "completion_tokens", "output_tokens"})
_HOLDERS = ("response", "message")
"""Where events of streams have the object that tells its usage."""


@dataclass(slots=True)
class Told:
    """What answers, or the events of one, have told so far."""

    usage: dict[str, Any] = field(default_factory=dict)
    """Their `usage` objects, one over the other."""
    service_tier: str = ""
    model: str = ""
    images: int = 0

    def hear(self, said: Any) -> None:
        """An answer, or an event of a stream, as parsed JSON."""
        if not isinstance(said, dict):
            return
        for holder in (said, *(said.get(name) for name in _HOLDERS)):
            if isinstance(holder, dict):
                self._hear(holder)
        self.images += _images(said)

    def _hear(self, holder: Mapping[str, Any]) -> None:
        usage = holder.get("usage")
        if isinstance(usage, dict):
            self.usage |= {n: value for n, value in usage.items() if value is not None or n not in self.usage}
        for tier in (
            holder.get("service_tier"),
            usage.get("service_tier") if isinstance(usage, dict) else None,
        ):
            if isinstance(tier, str) and tier:
                self.service_tier = tier[:64]
        model = holder.get("model")
        if isinstance(model, str) and model:
            self.model = model[:256]

    def amounts(self) -> Usage | None:
        """What it used; None where nothing was told of it that can be read."""
        found = _tokens(self.usage)
        if found is None:
            return Usage(0, 0, images=self.images, service_tier=self.service_tier) if self.images else None
        prompt, completion, cached, written = found
        estimated = self.usage.get("estimated") is True
        return Usage(prompt, completion, cached, estimated, written, self.images, self.service_tier)


def usage_of(answer: Mapping[str, Any]) -> Usage | None:
    """What an answer says it used, whichever API's it is; None where it does not say, or nothing that can be read."""
    told = Told()
    told.hear(answer)
    return told.amounts()


def _tokens(usage: Mapping[str, Any]) -> tuple[int, int, int, int] | None:
    """(prompt, completion, read from a cache, written to one)."""
    prompt = _count(usage.get("prompt_tokens", usage.get("input_tokens", 0)))
    completion = _count(usage.get("completion_tokens", usage.get("output_tokens", 0)))
    if prompt is None or completion is None or _SAYING.isdisjoint(usage):
        return None
    if "prompt_tokens" not in usage and "input_tokens" not in usage:
        # Some tell the sum and one part of it.
        prompt = max(0, (_count(usage.get("total_tokens")) or 0) - completion)
    read = _count(usage.get("cache_read_input_tokens"))
    written = _count(usage.get("cache_creation_input_tokens"))
    if "prompt_tokens" not in usage and (read is not None or written is not None):
        # Anthropic's: none of them is in `input_tokens`.
        read, written = read or 0, written or 0
        return prompt + read + written, completion, read, written
    details: Any = usage.get("prompt_tokens_details")
    if not isinstance(details, dict):
        details = usage.get("input_tokens_details")
    if not isinstance(details, dict):
        details = {}
    cached = _count(details.get("cached_tokens"))
    if cached is None:
        cached = _count(usage.get("prompt_cache_hit_tokens"))
    cached = min(cached if cached is not None else read or 0, prompt)
    written = _count(details.get("cache_write_tokens")) or written or 0
    return prompt, completion, cached, min(written, prompt - cached)


def _count(value: Any) -> int | None:
    """A number of tokens; None for what is none."""
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        return None
    return value


def _images(said: Mapping[str, Any]) -> int:
    data = said.get("data")
    if isinstance(data, list):
        return sum(1 for one in data if isinstance(one, dict) and ("b64_json" in one or "url" in one))
    kind = said.get("type")
    return int(isinstance(kind, str) and kind in ("image_generation.completed", "image_edit.completed"))


class Passing:
    """Reads what an answer used as its bytes pass by.

    Feed it every chunk, then ask for `usage`. It holds a mebibyte at most: of a larger answer, and of a larger event of a
    stream, the two ends, where usage is told. It never raises: what cannot be read is not known. Nor is an
    answer of which one chunk unpacks to over 8 MiB: it would hold the event loop.
    """

    def __init__(self, content_type: str, content_encoding: str = "") -> None:
        self.streamed = content_type.partition(";")[0].strip().lower() == "text/event-stream"
        self._decoder, self._readable = _decoder(content_encoding)
        self.told = Told()
        self.events = 0
        """Events that had data; of a stream of text about one per token."""
        self.size_bytes = 0
        """Of all that passed, without its content encoding where that can be read."""
        self._held = _Ends()
        """The answer; of a stream the line that has begun."""

    def feed(self, chunk: bytes) -> None:
        """The next bytes."""
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

    def usage(self) -> Usage | None:
        """What it used; None where it did not say. To be asked at the end, once or again."""
        if self.streamed:
            self._end_of_line()
        elif self._held.size_bytes:
            self.told.hear(self._held.parsed())
            self.told.images = max(self.told.images, self._held.images)
            self._held = _Ends()
        return self.told.amounts()

    def estimated(self, prompt_bytes: int, *, answers_text: bool) -> Usage:
        """What it used, roughly, where it does not say: by the size of what was asked, and of what came."""
        completion = 0
        if answers_text:
            completion = self.events if self.streamed else -(-self.size_bytes // CHARACTERS_PER_TOKEN)
        return Usage(-(-prompt_bytes // CHARACTERS_PER_TOKEN), completion, estimated=True)

    def _feed(self, chunk: bytes) -> None:
        self.size_bytes += len(chunk)
        if not self._readable or not chunk:
            return
        if not self.streamed:
            self._held.feed(chunk)
            return
        if not self._held.size_bytes and chunk.endswith(b"\n") and not self._tells(chunk):
            # Whole events that tell nothing new, as nearly all do.
            self.events += chunk.count(b"\ndata:") + chunk.startswith(b"data:") - chunk.count(b"[DONE]")
            return
        begin = 0
        while (end := chunk.find(b"\n", begin)) >= 0:
            self._held.feed(chunk[begin:end])
            self._end_of_line()
            begin = end + 1
        if begin < len(chunk):
            self._held.feed(chunk[begin:])

    def _end_of_line(self) -> None:
        line, self._held = self._held, _Ends()
        if not line.begins_with(b"data:"):
            return
        if line.is_one_of(_EMPTY):
            return
        self.events += 1
        if line.is_long or self._tells(line.whole):
            self.told.hear(line.parsed(skip=len(b"data:")))

    def _tells(self, text: bytes | bytearray) -> bool:
        """Whether something may stand in it that is not known yet."""
        told = self.told
        return (
            not told.model
            or (b'"usage"' in text and _MEMBER.search(text) is not None)
            or (not told.service_tier and _TIER.search(text) is not None)
            or _IMAGE_KEY in text
        )


_PIECE_BYTES = 256 * 1024
_MOST_UNPACKED_BYTES = 8 * 2**20
"""What one chunk may unpack to. A chunk of 64 KiB of a stream, whose events are nearly alike, becomes 4 MiB."""
_WHOLE_BYTES = 2**20
_END_BYTES = 64 * 1024
_EMPTY = (b"data:", b"data: ", b"data: [DONE]", b"data:[DONE]")
_TIER = re.compile(rb'"service_tier"\s*:\s*"')
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

    @property
    def whole(self) -> bytearray:
        """All of it, if it is not long."""
        return self._head

    def parsed(self, skip: int = 0) -> Any:
        """The whole of it as JSON; of a longer one the members that tell its usage."""
        if self._tail is None:
            try:
                return orjson.loads(memoryview(self._head)[skip:])
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
            if _tokens(found["usage"]) is not None:
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
