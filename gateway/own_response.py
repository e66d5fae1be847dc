"""Answers the gateway gives by itself, as opposed to those it passes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web
from multidict import CIMultiDict

from engines.codecs.table import codec_named
from engines.errors import EngineError
from engines.off_loop import LARGE_BYTES, off_loop
from gateway.relay import relay_for
from gateway.send import SERVER


def own_response(
    body: bytes,
    *,
    status: int = 200,
    content_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """A whole answer of our own."""
    return web.Response(
        status=status, body=body, headers={"Content-Type": content_type, "Server": SERVER, **(headers or {})}
    )


def json_response(content: object, *, status: int = 200) -> web.Response:
    """The same, from an object."""
    return own_response(orjson.dumps(content), status=status)


async def json_in_pieces(
    request: web.BaseRequest,
    content: Mapping[str, Any],
    member: str,
    *,
    status: int,
    headers: Mapping[str, str],
) -> web.StreamResponse:
    """The same for an object with a member that may hold megabytes: its members, objects, are sent some at a time,
    and large ones made on a thread.

    So the event loop does not wait for the whole, and memory does not hold it twice."""
    send = relay_for(request)
    head = {"Content-Type": "application/json", "Server": SERVER, **headers}
    write = await send.begin(status, CIMultiDict(head))
    rest = {name: each for name, each in content.items() if name != member}
    held = orjson.dumps({**rest, member: {}})[:-2]
    between = b""
    for name, each in content[member].items():
        # Without their outer braces they are members of one object.
        piece = await off_loop(_size_bytes(each), orjson.dumps, {name: each})
        held += between + piece[1:-1]
        between = b","
        if len(held) > LARGE_BYTES:
            await write(held)
            held = b""
    await write(held + b"}}")
    return send.response


def _size_bytes(member: Mapping[str, Any]) -> int:
    """About how large it is; what holds a list is taken to be large."""
    return sum(
        len(part) if isinstance(part, str) else LARGE_BYTES + 1
        for part in member.values()
        if isinstance(part, str | list)
    )


def error_response(
    status: int,
    message: str,
    *,
    code: str | None = None,
    param: str | None = None,
    retry_after_s: float | None = None,
    api: str = "",
) -> web.Response:
    """A whole error answer, in the shape of the API that was asked."""
    body = codec_named(api).error(status, message, code=code, param=param)
    response = own_response(body, status=status)
    if retry_after_s is not None:
        response.headers["Retry-After"] = str(max(1, round(retry_after_s)))
    if status == 409:
        # SDKs try again after a conflict, which changes nothing about one of ours.
        response.headers["x-should-retry"] = "false"
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def engine_error_response(error: EngineError, api: str = "") -> web.Response:
    """An engine's failure as an answer: the reason is told, nothing secret is in it."""
    return error_response(
        error.status, error.message, code=error.code, retry_after_s=error.retry_after_s, api=api
    )
