"""Our own errors in OpenAI's shape: what an OpenAI SDK turns into the right exception class."""

from __future__ import annotations

import orjson
from aiohttp import web

from engines.errors import EngineError
from gateway.own_response import own_response

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    431: "invalid_request_error",
}


def error_body(status: int, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
    """The JSON body of an error."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return orjson.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}})


def error_response(
    status: int,
    message: str,
    *,
    code: str | None = None,
    param: str | None = None,
    retry_after_s: float | None = None,
) -> web.Response:
    """A whole error answer."""
    response = own_response(error_body(status, message, code=code, param=param), status=status)
    if retry_after_s is not None:
        response.headers["Retry-After"] = str(max(1, round(retry_after_s)))
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def engine_error_response(error: EngineError) -> web.Response:
    """An engine's failure as an answer: the reason is told, nothing secret is in it."""
    return error_response(error.status, error.message, code=error.code, retry_after_s=error.retry_after_s)


def error_event(message: str, code: str) -> bytes:
    """An SSE event that tells a client its stream broke. The leading blank line ends whatever event was cut."""
    body = error_body(502, message, code=code)
    return b"\n\ndata: " + body + b"\n\n"
