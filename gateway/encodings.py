"""Content encodings: bodies that come with one are decoded, and answers are asked for in one that can be read here."""

from __future__ import annotations

import zlib

from multidict import CIMultiDict

from engines.errors import RequestError

DECODERS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""Window sizes, as zlib wants them, by the encoding that a request may come in."""
_READABLE = frozenset({"gzip", "deflate", "identity", "x-gzip"})


def accept_only_readable(headers: CIMultiDict[str]) -> None:
    """Ask upstreams for no content encoding that the recorder cannot read."""
    accepted = headers.get("Accept-Encoding")
    if accepted is None:
        return
    kept = [part for part in accepted.split(",") if part.partition(";")[0].strip().lower() in _READABLE]
    headers["Accept-Encoding"] = ",".join(kept) or "identity"


def decoded(body: bytes, encoding: str, limit_bytes: int) -> bytes:
    """A body without its content encoding; as it came where that is none that is known here. Raises RequestError."""
    encoding = encoding.strip().lower()
    if encoding not in DECODERS:
        return body
    decoder = zlib.decompressobj(DECODERS[encoding])
    try:
        body = decoder.decompress(body, limit_bytes + 1)
    except zlib.error as error:
        raise RequestError(f"The body is not valid {encoding}.", code="invalid_encoding") from error
    if len(body) > limit_bytes:
        raise too_large(len(body), limit_bytes)
    if not decoder.eof or decoder.unused_data:
        raise RequestError(f"The {encoding} body ends too early or too late.", code="invalid_encoding")
    return body


def too_large(size_bytes: int, limit_bytes: int) -> RequestError:
    """The error for a body over a limit."""
    return RequestError(
        f"The request body of at least {size_bytes} bytes is over this gateway's limit of {limit_bytes} bytes.",
        status=413,
        code="request_too_large",
    )
