"""The members of an error answer that say what is wrong, whichever API it is from.

Refuses to know what they mean (engines.refusals, engines.too_long).
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from engines.errors import EngineError
from engines.loose_json import parsed
from engines.sse import begins_with_error

if TYPE_CHECKING:
    from engines.engine import EngineReply

_READ_CHARACTERS = 600
"""Of each text of a refusal: further on, servers quote the request, which may say anything."""
_READ_BYTES = 64 * 1024
_DEEPEST = 8
_MOST = 64
"""Texts of one error."""
_SAYS = (
    "code",
    "type",
    "__type",
    "status",
    "reason",
    "error_type",
    "error_code",
    "param",
    "message",
    "Message",
    "error",
    "errors",
    "detail",
    "details",
    "msg",
    "metadata",
    "raw",
)
"""Members of an error's JSON that say what is wrong. Others may quote the request."""
_HELD_BYTES = 256 * 1024
"""Of an error answer, or of a stream up to its error."""
_HELD_S = 5.0
"""How long the rest of an error answer is waited for."""
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class Said(NamedTuple):
    """One text of an error."""

    name: str
    """Of the member that says it; empty outside of JSON."""
    text: str
    """Its beginning."""


def error_texts(body: bytes) -> list[Said]:
    """All texts of an error answer that say what is wrong."""
    plain = _plain(body)
    told = parsed(plain)
    if told is None:
        told = plain[:_READ_CHARACTERS].decode("utf-8", "replace")
    return list(islice(_texts("", told, _DEEPEST), _MOST))


async def hold_error(reply: EngineReply) -> None:
    """Read an error answer into memory, or a stream up to its error."""
    body, source = bytearray(), reply.chunks
    try:
        async with asyncio.timeout(_HELD_S):
            async for chunk in source:
                body += chunk
                if len(body) > _HELD_BYTES or (reply.status < 400 and begins_with_error(body)):
                    # What follows is not read: no length may promise it.
                    reply.headers.popall("Content-Length", None)
                    break
    except (EngineError, TimeoutError):
        reply.headers.popall("Content-Length", None)
    reply.hold(bytes(body))


def _plain(body: bytes) -> bytes:
    try:
        return zlib.decompressobj(_GZIP_OR_ZLIB).decompress(body, _READ_BYTES)
    except zlib.error:
        return body


def _texts(name: str, told: Any, deeper: int) -> Iterator[Said]:
    if isinstance(told, str):
        yield Said(name, told[:_READ_CHARACTERS])
        if deeper and (start := told.find('{"')) >= 0:
            # A gateway quotes the JSON of its upstream.
            yield from _texts(name, parsed(told[start:]), deeper - 1)
    elif deeper and isinstance(told, list):
        for one in told[:4]:
            yield from _texts(name, one, deeper - 1)
    elif deeper and isinstance(told, Mapping):
        for member in _SAYS:
            if member in told:
                yield from _texts(member, told[member], deeper - 1)
