"""Content encodings: bodies that come with one are decoded, and answers are asked for in one that can be read here."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from multidict import CIMultiDict

from engines.errors import RequestError

_READABLE = frozenset({"gzip", "deflate", "identity", "x-gzip"})
_LARGEST_WINDOW = 23
"""Of zstd, as a power of two: 8 MiB, which every decoder of HTTP bodies must have (RFC 9659)."""
_BROTLI_BYTES = 64 * 1024
"""Unpacked at a time: more is kept inside the decoder than it is told to give."""


def accept_only_readable(headers: CIMultiDict[str]) -> None:
    """Ask upstreams for no content encoding that the recorder cannot read."""
    accepted = headers.get("Accept-Encoding")
    if accepted is None:
        return
    kept = [part for part in accepted.split(",") if part.partition(";")[0].strip().lower() in _READABLE]
    headers["Accept-Encoding"] = ",".join(kept) or "identity"


class _Broken(Exception):
    """A body is not what its encoding says."""


class _Unpacked(NamedTuple):
    body: bytes
    whole: bool
    """It ended where the bytes did."""


def _zlib(window: int, body: bytes, most: int) -> _Unpacked:
    decoder = zlib.decompressobj(window)
    try:
        unpacked = decoder.decompress(body, most)
    except zlib.error as error:
        raise _Broken from error
    return _Unpacked(unpacked, decoder.eof and not decoder.unused_data)


def _zstd(body: bytes, most: int) -> _Unpacked:
    from backports import zstd

    decoder = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _LARGEST_WINDOW})
    try:
        unpacked = decoder.decompress(body, most)
    except zstd.ZstdError as error:
        raise _Broken from error
    return _Unpacked(unpacked, decoder.eof and not decoder.unused_data)


def _brotli(body: bytes, most: int) -> _Unpacked:
    import brotli

    decoder, pieces, size_bytes = brotli.Decompressor(), [], 0
    try:
        piece = decoder.process(body, output_buffer_limit=_BROTLI_BYTES)
        while piece and size_bytes < most:
            pieces.append(piece)
            size_bytes += len(piece)
            piece = decoder.process(b"", output_buffer_limit=_BROTLI_BYTES)
    except brotli.error as error:
        raise _Broken from error
    return _Unpacked(b"".join(pieces), decoder.is_finished())


DECODERS: dict[str, Callable[[bytes, int], _Unpacked]] = {
    "gzip": partial(_zlib, 31),
    "x-gzip": partial(_zlib, 31),
    "deflate": partial(_zlib, 15),
    "zstd": _zstd,
    "br": _brotli,
}
"""By the encoding that a request may come in: what unpacks a body to at most so many bytes, or little more."""


def decoded(body: bytes, encoding: str, limit_bytes: int) -> bytes:
    """A body without its content encoding; as it came where that is none that is known here. Raises RequestError."""
    encoding = encoding.strip().lower()
    if encoding not in DECODERS:
        return body
    try:
        unpacked, whole = DECODERS[encoding](body, limit_bytes + 1)
    except _Broken as error:
        raise RequestError(f"The body is not valid {encoding}.", code="invalid_encoding") from error
    if len(unpacked) > limit_bytes:
        raise too_large(len(unpacked), limit_bytes)
    if not whole:
        raise RequestError(f"The {encoding} body ends too early or too late.", code="invalid_encoding")
    return unpacked


def too_large(size_bytes: int, limit_bytes: int) -> RequestError:
    """The error for a body over a limit."""
    return RequestError(
        f"The request body of at least {size_bytes} bytes is over this gateway's limit of {limit_bytes} bytes.",
        status=413,
        code="request_too_large",
    )
