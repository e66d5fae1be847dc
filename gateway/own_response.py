"""Answers the gateway gives by itself, as opposed to those it passes on."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from aiohttp import web

SERVER = "understudy"


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
