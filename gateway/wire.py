"""Reads request bodies: the raw bytes within a limit, decompressed and parsed. What they mean is engines.chat_json's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from engines.chat_json import parse_object
from engines.errors import RequestError
from gateway.encodings import DECODERS, decoded, too_large
from gateway.forms import Form, read_form
from gateway.off_loop import off_loop

BODY_READ = web.RequestKey("body_read", bytes)
"""Where a request keeps the body that was read of it before its handler."""
BODY_GAP_S = web.RequestKey("body_gap_s", float)
"""Where a request keeps how long its client may pause in the middle of its body."""
_FIELDS_READ = web.RequestKey("fields_read", dict[str, Any])
"""Where a request keeps its body's parsed fields that were read before its handler."""
_FORM_READ = web.RequestKey("form_read", Form)
"""Where a request keeps the form that was read of it, for whoever asks next."""


async def arriving(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """The body as it arrives. Raises RequestError (408) where its client pauses for too long."""
    gap_s: float | None = request.get(BODY_GAP_S)
    while True:
        try:
            # Not around what is done with a chunk: how long an upstream takes for it is not the client's pause.
            async with asyncio.timeout(gap_s):
                chunk = await request.content.readany()
        except TimeoutError:
            raise RequestError(
                f"Nothing came of the request body for {gap_s:g} s.", status=408, code="request_timeout"
            ) from None
        if not chunk:
            return
        yield chunk


async def read_body(request: web.BaseRequest, limit_bytes: int) -> bytes:
    """The raw body. Raises RequestError 413 over the limit, which is noticed before the body is held in memory."""
    read: bytes | None = request.get(BODY_READ)
    if read is not None:
        if len(read) > limit_bytes:
            raise too_large(len(read), limit_bytes)
        return read
    if request.content_length is not None and request.content_length > limit_bytes:
        raise too_large(request.content_length, limit_bytes)
    chunks, received = [], 0
    async for chunk in arriving(request):
        received += len(chunk)
        if received > limit_bytes:
            raise too_large(received, limit_bytes)
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else await off_loop(received, b"".join, chunks)


def is_form(request: web.BaseRequest) -> bool:
    """Whether the body is a form whose fields may be files."""
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower() == "multipart/form-data"


def is_json(request: web.BaseRequest) -> bool:
    """Whether the body says it is JSON, or says nothing."""
    return (
        request.headers.get("Content-Type", "application/json").partition(";")[0].strip().lower()
        == "application/json"
    )


async def read_json(
    request: web.BaseRequest, body: bytes, limit_bytes: int, *, needed: bool = True
) -> dict[str, Any] | None:
    """The parsed body; None when its content encoding is unknown here, so that it can only be passed on.

    Raises RequestError: 400 for anything but one strict JSON object, which is None, too, if it is not `needed`: the upstream
    judges it then. 413 for one that is too large unpacked.
    """
    fields: dict[str, Any] | None = request.get(_FIELDS_READ)
    if fields is not None:
        return fields
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity", *DECODERS):
        return None
    try:
        if encoding in DECODERS:
            return await asyncio.to_thread(_decode_and_parse, body, encoding, limit_bytes)
        return await off_loop(len(body), parse_object, body)
    except RequestError as error:
        if needed or error.status != 400:
            raise
        return None


async def read_form_once(request: web.BaseRequest, body: bytes, limit_bytes: int) -> Form | None:
    """The body as a form; None when its content encoding is unknown here. Raises RequestError."""
    form: Form | None = request.get(_FORM_READ)
    if form is not None:
        return form
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity", *DECODERS):
        return None
    if encoding in DECODERS:
        body = await asyncio.to_thread(decoded, body, encoding, limit_bytes)
    form = request[_FORM_READ] = await off_loop(
        len(body), read_form, body, request.headers.get("Content-Type", "")
    )
    return form


async def read_ahead(request: web.BaseRequest, limit_bytes: int) -> bytes:
    """`read_body` before the handler, which then finds it read."""
    request[BODY_READ] = raw = await read_body(request, limit_bytes)
    return raw


async def read_json_ahead(request: web.BaseRequest, body: bytes, limit_bytes: int) -> dict[str, Any] | None:
    """`read_json` before the handler, which then finds it parsed."""
    fields = await read_json(request, body, limit_bytes)
    if fields is not None:
        request[_FIELDS_READ] = fields
    return fields


def replace_body(request: web.BaseRequest, body: bytes, fields: dict[str, Any]) -> web.BaseRequest:
    """The request with another body, which was made here, in the place of the one that was read ahead."""
    headers = request.headers.copy()
    for name in ("Content-Length", "Content-Encoding", "Transfer-Encoding"):
        headers.popall(name, None)
    headers["Content-Length"] = str(len(body))
    changed = request.clone(headers=headers)
    changed[BODY_READ], changed[_FIELDS_READ] = body, fields
    return changed


def _decode_and_parse(body: bytes, encoding: str, limit_bytes: int) -> dict[str, Any]:
    return parse_object(decoded(body, encoding, limit_bytes))
