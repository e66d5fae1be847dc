"""OpenAI JSON to engines.chat types. Nothing else knows what a request body looks like on the wire.

A body is judged strictly: what two parsers could read differently (duplicate keys, NaN, lone surrogates) is refused here, so
that the gateway, its cache and the upstream can never disagree on what was asked.
"""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from typing import Any

import orjson
from aiohttp import web

from engines.chat import ChatRequest
from gateway.errors import RequestError
from gateway.passthrough import too_large

_LARGE_BYTES = 64 * 1024
"""Larger bodies are parsed on a thread: milliseconds on the event loop would delay every other stream."""
_MAX_VALUES = 1_000_000
"""Counted by what separates them, also inside text. A `{}` of two bytes becomes an object of a hundred."""
_DECODERS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


async def read_body(request: web.BaseRequest, limit_bytes: int) -> bytes:
    """The raw body. Raises RequestError 413 over the limit, which is noticed before the body is held in memory."""
    if request.content_length is not None and request.content_length > limit_bytes:
        raise too_large(request.content_length, limit_bytes)
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large(limit_bytes + 1, limit_bytes) from error


def is_json(request: web.BaseRequest) -> bool:
    """Whether the body says it is JSON, or says nothing."""
    return (
        request.headers.get("Content-Type", "application/json").partition(";")[0].strip().lower()
        == "application/json"
    )


async def read_json(request: web.BaseRequest, body: bytes, limit_bytes: int) -> dict[str, Any] | None:
    """The parsed body; None when its content encoding is unknown here, so that it can only be passed on.

    Raises RequestError 400 for anything but one strict JSON object.
    """
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity", *_DECODERS):
        return None
    if len(body) > _LARGE_BYTES or encoding in _DECODERS:
        return await asyncio.to_thread(_decode_and_parse, body, encoding, limit_bytes)
    return parse_object(body)


def _decode_and_parse(body: bytes, encoding: str, limit_bytes: int) -> dict[str, Any]:
    if encoding in _DECODERS:
        decoder = zlib.decompressobj(_DECODERS[encoding])
        try:
            body = decoder.decompress(body, limit_bytes + 1)
        except zlib.error as error:
            raise RequestError(f"The body is not valid {encoding}.", code="invalid_encoding") from error
        if len(body) > limit_bytes:
            raise too_large(len(body), limit_bytes)
        if not decoder.eof:
            raise RequestError(f"The {encoding} body ends too early.", code="invalid_encoding")
    return parse_object(body)


def parse_object(body: bytes) -> dict[str, Any]:
    """One strict JSON object. Raises RequestError 400 saying what is wrong with it."""
    if not body.strip():
        raise RequestError("The request body is empty; it must be a JSON object.", code="empty_body")
    if len(body) > _MAX_VALUES and sum(body.count(mark) for mark in (b",", b"[", b"{")) > _MAX_VALUES:
        raise RequestError(
            f"The request body holds more than {_MAX_VALUES} values; parsed, it would fill the memory.",
            status=413,
            code="request_too_large",
        )
    try:
        parsed = orjson.loads(body)
        if not _surely_exact(body, parsed):
            parsed = _EACH_KEY_ONCE.decode(body.decode())
    except orjson.JSONDecodeError as error:
        raise RequestError(f"The request body is not valid JSON: {error}.", code="invalid_json") from None
    except (RecursionError, ValueError) as error:
        why = (
            str(error)
            if isinstance(error, _DuplicateKey)
            else "it is nested too deeply, or holds an absurd number"
        )
        raise RequestError(f"The request body is not acceptable JSON: {why}.", code="invalid_json") from None
    if not isinstance(parsed, dict):
        raise RequestError("The request body must be a JSON object.", code="invalid_json")
    return parsed


def _surely_exact(body: bytes, parsed: Any) -> bool:
    """Whether orjson's quick reading lost nothing: no key was given twice and no integer was rounded.

    orjson already refused NaN, lone surrogates, bad UTF-8 and endless nesting. What it lets through, it may change: of a key
    given twice it keeps the last, and integers beyond 64 bits become floats. Every key is followed by a colon, so as many
    of those as there are keys in the result means that none went missing; other colons only make us look again, slowly.
    """
    keys = 0
    left = [parsed]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            keys += len(item)
            left.extend(item.values())
        elif isinstance(item, list):
            left.extend(item)
        elif isinstance(item, float) and abs(item) >= _ROUNDED:
            return False
    return body.count(b":") == keys or len(_KEY.findall(body)) == keys


class _DuplicateKey(ValueError):
    pass


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKey(f"the key {key[:60]!r} appears twice in one object")
            seen.add(key)
    return found


_KEY = re.compile(rb'"\s*:')
_ROUNDED = 2.0**62
"""Floats from here on may have been integers that did not fit 64 bits."""
_EACH_KEY_ONCE = json.JSONDecoder(object_pairs_hook=_each_key_once)
"""The slow and exact reader, made once: json.loads with a hook would build a new one for every body."""


def read_chat_request(body: bytes, fields: dict[str, Any]) -> ChatRequest:
    """The typed view of a chat body. Raises RequestError 400 naming the parameter that is wrong."""
    model = fields.get("model", "")
    if not isinstance(model, str):
        raise _wrong("model", "a string", model)
    messages = fields.get("messages")
    if not isinstance(messages, list):
        raise _wrong("messages", "a list", messages)
    for i, message in enumerate(messages):
        if not isinstance(message, dict):
            raise _wrong(f"messages[{i}]", "an object", message)
        if not isinstance(message.get("role"), str):
            raise _wrong(f"messages[{i}].role", "a string", message.get("role"))
        content = message.get("content")
        if content is not None and not isinstance(content, str | list):
            raise _wrong(f"messages[{i}].content", "a string or a list of parts", content)
    stream = fields.get("stream")
    if stream is not None and not isinstance(stream, bool):
        raise _wrong("stream", "true or false", stream)
    options = fields.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise _wrong("stream_options", "an object", options)
    include_usage = bool(options and options.get("include_usage"))
    return ChatRequest(body, fields, model, messages, stream=bool(stream), include_usage=include_usage)


def _wrong(param: str, wanted: str, value: object) -> RequestError:
    kinds = {
        "NoneType": "missing or null",
        "dict": "an object",
        "list": "a list",
        "str": "a string",
        "bool": "a boolean",
    }
    kind = kinds.get(type(value).__name__, "a number")
    return RequestError(f"'{param}' must be {wanted}; it is {kind}.", code="invalid_type", param=param)
